use polyaxon_tests::contract::{files, processes};
use polyaxon_tests::for_each_contract;
use polyaxon_tests::local::LocalSandbox;

/// One test for each function of the contract, each with a sandbox of its own.
macro_rules! contract {
    (() $($area:ident::$name:ident),+ $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            let local = LocalSandbox::start().await;
            $area::$name(&local.sandbox).await;
        }
    )+};
}

for_each_contract!(contract);

use polyaxon_tests::contract::{files, processes};
use polyaxon_tests::local::LocalSandbox;

/// One test for each function of the contract, each with a sandbox of its own.
macro_rules! contract {
    ($($area:ident::$name:ident),+ $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            let local = LocalSandbox::start().await;
            $area::$name(&local.sandbox).await;
        }
    )+};
}

contract!(
    files::bytes_come_back_as_they_went,
    files::a_file_of_many_pages_is_read_whole,
    files::names_are_taken_as_they_are,
    files::modes_are_those_that_were_asked_for,
    files::a_write_keeps_to_its_conditions,
    files::listings_are_sorted_and_say_when_they_are_cut,
    files::failures_have_their_codes,
    files::a_path_that_cannot_be_is_refused,
    processes::an_end_is_told_exactly,
    processes::arguments_reach_the_program_untouched,
    processes::the_environment_is_edited,
    processes::the_working_directory_has_the_files,
    processes::input_is_given_and_closed,
    processes::large_input_and_output_do_not_block_each_other,
    processes::output_that_is_cut_says_so,
    processes::a_time_limit_kills_the_whole_group,
    processes::an_exec_ends_when_its_process_ends,
    processes::a_command_that_cannot_start_is_not_applied,
);

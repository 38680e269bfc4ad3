//! The list of known faults in `tests/README.md`, and the tests that it names.

/// The faults that a service, a client or a loop can have. Each needs a test.
const FAULTS: [&str; 100] = [
    "SB-01", "SB-02", "SB-04", "SB-05", "SB-07", "SB-08", "SB-10", "SB-11", "SB-13", "SB-14",
    "SB-16", "SB-17", "SB-19", "SB-20", "SB-22", "SB-23", "SB-25", "SB-26", "SB-28", "SB-29",
    "SB-31", "SB-32", "SB-34", "SB-35", "SB-37", "SB-38", "SB-40", "SB-43", "SB-44", "SB-46",
    "SB-47", "SB-49", "SB-50", "SB-52", "SB-53", "SB-55", "SB-56", "SB-58", "SB-59", "AG-01",
    "AG-02", "AG-04", "AG-05", "AG-07", "AG-08", "AG-10", "AG-11", "AG-13", "AG-14", "AG-16",
    "AG-17", "AG-19", "AG-20", "AG-22", "AG-23", "AG-25", "AG-26", "AG-28", "AG-29", "AG-31",
    "AG-32", "AG-34", "AG-35", "AG-37", "AG-38", "AG-40", "AG-41", "AG-43", "AG-44", "AG-46",
    "AG-47", "AG-49", "AG-50", "AG-52", "AG-53", "AG-55", "AG-56", "AG-58", "AG-59", "AG-61",
    "AG-62", "AG-64", "AG-65", "AG-67", "AG-68", "AG-70", "AG-71", "AG-73", "AG-74", "AG-76",
    "AG-77", "AG-79", "AG-80", "AG-82", "AG-83", "AG-85", "AG-86", "AG-88", "AG-89", "AG-91",
];

/// What is wrong with the list, a line each. `read` gives the text of a file of the project.
pub(super) fn check(list: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for fault in FAULTS {
        let row = list
            .lines()
            .find(|line| line.starts_with(&format!("| {fault} |")));
        let Some(row) = row else {
            problems.push(format!("tests/README.md has no row for {fault}"));
            continue;
        };
        let mut tests = row
            .split('`')
            .skip(1)
            .step_by(2)
            .filter_map(|name| name.split_once("::"));
        let Some(first) = tests.next() else {
            problems.push(format!("tests/README.md names no test for {fault}"));
            continue;
        };
        for (file, test) in std::iter::once(first).chain(tests) {
            let text = read(file).unwrap_or_default();
            if !is_test(&text, test) && !is_of_the_contract(file, test, &read) {
                problems.push(format!(
                    "tests/README.md names {file}::{test} for {fault}, which is no test there"
                ));
            }
        }
    }
    problems
}

/// Whether a function of that name has an attribute right above it that makes it a test.
fn is_test(text: &str, name: &str) -> bool {
    let function = format!("fn {name}(");
    let mut above = "";
    for line in text.lines().map(str::trim_start) {
        if line.contains(&function) {
            return above.starts_with("#[test") || above.starts_with("#[tokio::test");
        }
        above = line;
    }
    false
}

/// Whether it is a function of the contract of sandboxes, which is run over every way to a service.
fn is_of_the_contract(file: &str, name: &str, read: impl Fn(&str) -> Option<String>) -> bool {
    let area = file
        .strip_prefix("tests/src/contract/")
        .and_then(|file| file.strip_suffix(".rs"));
    area.is_some_and(|area| {
        let entry = format!("{area}::{name},");
        let list = read("tests/src/contract.rs").unwrap_or_default();
        list.lines().any(|line| line.trim_start() == entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_without_a_test_and_a_test_that_is_gone_are_found() {
        let row = |fault: &&str| format!("| {fault} | x | `a.rs::it` `b.rs::it` |\n");
        let all: String = FAULTS.iter().map(row).collect();
        let read = |text: &'static str| move |_: &str| Some(text.to_owned());
        assert_eq!(check(&all, read("#[test]\nfn it() {}")), [] as [String; 0]);
        assert_eq!(
            check(&all, read("#[tokio::test]\nasync fn it() {}")).len(),
            0
        );
        // A function that is no test, or of a longer name, is none.
        assert_eq!(check(&all, read("fn it() {}")).len(), 2 * FAULTS.len());
        assert_eq!(
            check(&all, read("#[test]\nfn it_too() {}")).len(),
            2 * FAULTS.len()
        );
        assert_eq!(check("", read("")).len(), FAULTS.len());
        assert_eq!(check(&all.replace('`', ""), read("")).len(), FAULTS.len());
    }

    #[test]
    fn a_function_of_the_contract_counts_where_it_is_in_the_list() {
        let read = |file: &str| match file {
            "tests/src/contract.rs" => Some("  pty::listed,\n".to_owned()),
            _ => Some("pub async fn listed() {}\npub async fn forgotten() {}".to_owned()),
        };
        let of = |name| is_of_the_contract("tests/src/contract/pty.rs", name, read);
        assert!(of("listed"));
        assert!(!of("forgotten"));
        assert!(!is_of_the_contract("tests/src/local.rs", "listed", read));
    }
}

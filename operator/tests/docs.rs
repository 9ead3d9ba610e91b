//! The tables of `docs/operator.md` say what the code says.
//! `UPDATE_GOLDEN=1 cargo test -p filestore-operator` rewrites them.

use std::fmt::Write as _;
use std::path::PathBuf;

use filestore_operator::api::AS_IN_KUBERNETES;
use filestore_operator::status::reason;
use serde_json::Value;

/// Why writing does not fail.
const FITS: &str = "a string takes any text";

fn fields(schema: &Value, path: &str, table: &mut String) {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let kind = field["type"].as_str().unwrap_or("any");
        let values: Vec<&str> = field["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let kind = match (values.is_empty(), kind) {
            (false, _) => values
                .iter()
                .map(|value| format!("`{value}`"))
                .collect::<Vec<_>>()
                .join(", "),
            (true, "array") => format!(
                "list of {}",
                field["items"]["type"].as_str().unwrap_or("any")
            ),
            (true, other) => other.to_owned(),
        };
        let must = if required.contains(&name.as_str()) {
            "yes"
        } else {
            ""
        };
        let text = field["description"]
            .as_str()
            .unwrap_or_default()
            .replace('\n', " ");
        writeln!(table, "| `{path}` | {kind} | {must} | {text} |").expect(FITS);
        if AS_IN_KUBERNETES.contains(&format!("spec.{path}").as_str()) {
            continue;
        }
        fields(field, &path, table);
        fields(&field["items"], &format!("{path}[]"), table);
    }
}

fn field_table(crd: &Value) -> String {
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut table = "| field of `spec` | type | must be set | |\n|---|---|---|---|\n".to_owned();
    fields(schema, "", &mut table);
    table
}

fn reason_tables() -> String {
    let mut text = String::new();
    let mut last = "";
    for row in reason::ALL {
        if row.condition != last {
            last = row.condition;
            write!(
                text,
                "\n**{last}**\n\n| reason | meaning | what to do |\n|---|---|---|\n"
            )
            .expect(FITS);
        }
        writeln!(text, "| `{}` | {} | {} |", row.name, row.meaning, row.cure).expect(FITS);
    }
    text.trim_start().to_owned()
}

/// Puts `table` between the two marks of `name`.
fn replaced(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (
        format!("<!-- {name}: generated -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let (head, rest) = page.split_once(&begin).expect("no begin");
    let (_, tail) = rest.split_once(&end).expect("no end");
    format!("{head}{begin}\n{table}\n{end}{tail}")
}

/// Names of tests on a page that do not exist, and how many do. A test is `file::test` or `file test`,
/// with `…` for the file that was named before.
fn missing_tests(page: &str) -> (Vec<String>, usize) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut file = String::new();
    let mut keyword = "fn";
    let (mut missing, mut found) = (Vec::new(), 0);
    for code in page.split('`').skip(1).step_by(2) {
        let Some((path, test)) = code.split_once("::").or_else(|| code.split_once(' ')) else {
            continue;
        };
        match path.rsplit_once('.') {
            Some((_, "rs")) => keyword = "fn",
            Some((_, "py")) => keyword = "def",
            _ if path == "…" || path.is_empty() => {}
            _ => continue,
        }
        if path.contains('.') {
            path.clone_into(&mut file);
        }
        let source = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
        if source.contains(&format!("{keyword} {test}(")) {
            found += 1;
        } else {
            missing.push(format!("{file} has no test {test}"));
        }
    }
    (missing, found)
}

#[test]
fn tests_that_the_table_of_cases_names_exist() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/migration-cases.md")).unwrap();
    let (missing, found) = missing_tests(&page);
    assert!(missing.is_empty(), "docs/migration-cases.md: {missing:#?}");
    assert!(found > 69, "{found}");
    let cases = page
        .lines()
        .filter_map(|row| row.strip_prefix("| O")?.get(..2)?.parse().ok());
    assert_eq!(cases.collect::<Vec<u32>>(), (1..=19).collect::<Vec<_>>());
}

#[test]
fn tests_that_the_table_of_asks_names_exist() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/asks.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let numbers = rows.iter().filter_map(|row| row.split('|').nth(1));
    let numbers: Vec<u32> = numbers
        .filter_map(|cell| cell.trim().parse().ok())
        .collect();
    assert_eq!(numbers, (1..=39).collect::<Vec<_>>());
    let (missing, named) = missing_tests(&page);
    assert!(missing.is_empty(), "docs/asks.md: {missing:#?}");
    assert!(named > 39, "{named}");
    for row in rows.iter().filter(|row| !row.starts_with("| #")) {
        let last = row.trim_end_matches('|').rsplit('|').next();
        let said = last.is_some_and(|last| last.contains("::") || last.contains("No:"));
        let is_ask = row.split('|').nth(1).is_some_and(|cell| {
            let cell = cell.trim();
            !cell.is_empty() && cell.chars().all(|one| one.is_ascii_digit())
        });
        assert!(!is_ask || said, "{row}: neither a test nor why not");
    }
}

#[test]
fn tables_are_current() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/operator.md");
    let crd = serde_json::to_value(filestore_operator::api::crd()).unwrap();
    let page = std::fs::read_to_string(&file).unwrap();
    let current = replaced(&page, "fields", &field_table(&crd));
    let current = replaced(&current, "reasons", &reason_tables());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &current).unwrap();
        return;
    }
    assert!(
        page == current,
        "docs/operator.md is not current: see the head of this file"
    );
}

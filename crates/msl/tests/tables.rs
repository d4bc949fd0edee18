//! docs/tensorops.md has the tables that the rules give. `ANYMETAL_WRITE_TABLES=1` (or `cargo xtask tables`) writes them.

use std::path::Path;

const BEGIN: &str = "<!-- tables: begin -->\n";
const END: &str = "<!-- tables: end -->";

#[test]
fn the_page_has_the_tables_of_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tensorops.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let start = page.find(BEGIN).expect("a begin marker") + BEGIN.len();
    let end = page.find(END).expect("an end marker");
    let wanted = format!("\n{}\n", anymetal_msl::tensorops_tables());
    if std::env::var_os("ANYMETAL_WRITE_TABLES").is_some() {
        let page = format!("{}{wanted}{}", &page[..start], &page[end..]);
        std::fs::write(&path, page).unwrap();
        return;
    }
    assert!(
        page[start..end] == wanted,
        "docs/tensorops.md does not have the tables of the rules; `cargo xtask tables` writes them"
    );
}

/// The specification counts the rows.
#[test]
fn there_are_69_rows() {
    assert!(anymetal_msl::tensorops_tables().contains("69 rows"));
}

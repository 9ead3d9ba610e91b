//! The table of a chart's values, from its `values.yaml`: a comment above each value.

use anyhow::bail;

use super::row;

/// Rows of value, default and comment.
///
/// # Errors
/// A value without a comment, or a line that is neither a key of a block, a comment nor empty: the
/// file is ours, and is kept that simple.
pub(super) fn table(text: &str) -> anyhow::Result<String> {
    let mut table = String::from("| value | default | |\n|---|---|---|\n");
    // Keys of the blocks that the line is in, each with its indent.
    let mut blocks: Vec<(usize, &str)> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.is_empty() {
            comment.clear();
            continue;
        }
        if let Some(words) = trimmed.strip_prefix('#') {
            comment.push(words.trim());
            continue;
        }
        let Some((key, value)) = trimmed.split_once(':') else {
            bail!("{line:?} is no key");
        };
        let indent = line.len() - trimmed.len();
        blocks.retain(|(outer, _)| *outer < indent);
        let value = value.trim();
        if value.is_empty() {
            blocks.push((indent, key));
            comment.clear();
            continue;
        }
        let outer = blocks.iter().map(|(_, key)| *key);
        let path: Vec<&str> = outer.chain([key]).collect();
        if comment.is_empty() {
            bail!("{} has no comment", path.join("."));
        }
        let cells = [path.join("."), value.to_owned()].map(|text| format!("`{text}`"));
        let [path, value] = cells;
        table.push_str(&row(&[path, value, comment.join(" ")]));
        comment.clear();
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_their_comments() {
        let text = "# About the file.\n\n# One,\n# two.\na: \"\"\nb:\n  # Deep.\n  c:\n    # Deeper: x.\n    d: [1]\n  # Back.\n  e: {}\n";
        assert_eq!(
            table(text).unwrap(),
            "| value | default | |\n|---|---|---|\n| `a` | `\"\"` | One, two. |\n| `b.c.d` | `[1]` | Deeper: x. |\n| `b.e` | `{}` | Back. |\n"
        );
        assert!(table("a: 1").is_err());
        assert!(table("- a").is_err());
    }
}

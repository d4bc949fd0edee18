//! Patterns over tensor names: `*` is any run of characters (dots included), `?` any one.

/// True when the whole `name` fits `pattern`. Takes time proportional to the product of their lengths at worst.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // The last star seen, and how far its run reaches.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match &mut star {
                Some((at, reach)) => {
                    *reach += 1;
                    p = *at + 1;
                    n = *reach;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, wanted) in [
            ("*", "", true),
            ("*", "a.b", true),
            ("", "", true),
            ("", "a", false),
            ("*.weight", "layers.0.weight", true),
            ("*.weight", "layers.0.weights", false),
            ("layers.?.*", "layers.7.up", true),
            ("layers.?.*", "layers.17.up", false),
            ("a*b*c", "aXbbYcZc", true),
            ("a*b*c", "aXbYd", false),
            ("**a**", "bab", true),
            ("é?", "éü", true),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        }
        assert!(!matches(&"a*".repeat(200), &"b".repeat(2000)));
    }
}

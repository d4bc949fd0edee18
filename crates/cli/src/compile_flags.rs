//! Compiler flags as `xcrun metal` spells them.

use std::path::Path;

use anymetal::CompileOptions;

/// Applies one flag (`-I DIR`, `-IDIR`, `-D NAME[=VALUE]`, `-U NAME`, `-std=…`, `-include FILE`, `-f[no-]fast-math`) to the
/// options. `next` gives the following word where a flag takes one. Folders are relative to `base`.
pub fn apply(
    options: &mut CompileOptions,
    flag: &str,
    next: &mut dyn Iterator<Item = String>,
    base: &Path,
) -> Result<(), String> {
    let mut value = |rest: &str| {
        if rest.is_empty() {
            next.next().ok_or_else(|| format!("`{flag}` needs a value"))
        } else {
            Ok(rest.to_string())
        }
    };
    if let Some(rest) = flag.strip_prefix("-std=") {
        options.std = rest.parse().map_err(|error| format!("{error}"))?;
    } else if flag == "-ffast-math" || flag == "-fno-fast-math" {
        options.fast_math = flag == "-ffast-math";
    } else if flag == "-include" {
        options.force_includes.push(value("")?);
    } else if let Some(rest) = flag.strip_prefix("-I") {
        options.include_dirs.push(base.join(value(rest)?));
    } else if let Some(rest) = flag.strip_prefix("-D") {
        let definition = value(rest)?;
        let (name, text) = definition
            .split_once('=')
            .map_or((definition.as_str(), None), |(n, t)| (n, Some(t)));
        options.defines.push((name.to_string(), text.map(str::to_string)));
    } else if let Some(rest) = flag.strip_prefix("-U") {
        options.undefines.push(value(rest)?);
    } else {
        return Err(format!(
            "`{flag}` is no compiler flag: -I -D -U -std= -include -f[no-]fast-math"
        ));
    }
    Ok(())
}

/// Applies a list of flags.
pub fn apply_all(options: &mut CompileOptions, flags: &[String], base: &Path) -> Result<(), String> {
    let mut words = flags.iter().cloned();
    while let Some(flag) = words.next() {
        apply(options, &flag, &mut words, base)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags() {
        let words: Vec<String> = [
            "-I",
            "a",
            "-Ib",
            "-DX=1",
            "-D",
            "Y",
            "-UZ",
            "-std=metal4.0",
            "-fno-fast-math",
            "-include",
            "p.h",
        ]
        .map(str::to_string)
        .to_vec();
        let mut options = CompileOptions::default();
        apply_all(&mut options, &words, Path::new("/base")).unwrap();
        assert_eq!(options.include_dirs, [Path::new("/base/a"), Path::new("/base/b")]);
        assert_eq!(options.defines, [("X".into(), Some("1".into())), ("Y".into(), None)]);
        assert!(!options.fast_math);
        assert_eq!(options.force_includes, ["p.h"]);
        let error = apply_all(&mut options, &["-O3".to_string()], Path::new(".")).unwrap_err();
        assert_eq!(
            error,
            "`-O3` is no compiler flag: -I -D -U -std= -include -f[no-]fast-math"
        );
    }
}

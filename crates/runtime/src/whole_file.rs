//! A file that nobody ever sees half written.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Result, Write};
use std::path::{Path, PathBuf};

/// A file under a temporary name beside its place, which it takes in [`finish`](Self::finish) when it is complete. Dropped before that, it
/// leaves no trace, and what had the name before stays.
///
/// A symbolic link stays and what it names is replaced. Devices and pipes, which have no place to take, are written to as they are.
#[derive(Debug)]
pub struct WholeFile {
    /// `None` for a device or pipe.
    temporary: Option<PathBuf>,
    target: PathBuf,
    writer: BufWriter<File>,
    done: bool,
}

impl WholeFile {
    /// Begins a file that will have this name.
    pub fn create(target: &Path) -> Result<Self> {
        // The file behind links, if there is one.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_path_buf());
        let special = fs::metadata(&target).is_ok_and(|found| !found.is_file() && !found.is_dir());
        let (temporary, file) = if special {
            (None, OpenOptions::new().write(true).open(&target)?)
        } else if target.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        } else {
            let mut name = target.file_name().unwrap_or_default().to_os_string();
            name.push(format!(".partial-{}", std::process::id()));
            let temporary = target.with_file_name(name);
            let file = File::create(&temporary)?;
            (Some(temporary), file)
        };
        Ok(Self {
            temporary,
            target,
            writer: BufWriter::with_capacity(1 << 20, file),
            done: false,
        })
    }

    /// Writes a whole file at once.
    pub fn write_all_to(target: &Path, bytes: &[u8]) -> Result<()> {
        let mut file = Self::create(target)?;
        file.write_all(bytes)?;
        file.finish()
    }

    /// Makes the file appear under its name.
    pub fn finish(mut self) -> Result<()> {
        self.writer.flush()?;
        if let Some(temporary) = &self.temporary {
            self.writer.get_ref().sync_all()?;
            fs::rename(temporary, &self.target)?;
        }
        self.done = true;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.writer.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let (false, Some(temporary)) = (self.done, &self.temporary) {
            // Nothing more can be done about a file that cannot be removed either.
            let _ = fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("anymetal-whole-file-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = folder("whole");
        let path = folder.join("a.bin");
        fs::write(&path, b"before").unwrap();
        let mut given_up = WholeFile::create(&path).unwrap();
        given_up.write_all(b"half").unwrap();
        drop(given_up);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        WholeFile::write_all_to(&path, b"after").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert!(WholeFile::create(&folder).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_and_pipes_stay_what_they_are() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let folder = folder("links");
        let (real, link, pipe) = (folder.join("real"), folder.join("link"), folder.join("pipe"));
        fs::write(&real, b"before").unwrap();
        symlink(&real, &link).unwrap();
        WholeFile::write_all_to(&link, b"after").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"after");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if made.is_ok_and(|status| status.success()) {
            let from = pipe.clone();
            let reader = std::thread::spawn(move || fs::read(from).unwrap());
            WholeFile::write_all_to(&pipe, b"through").unwrap();
            assert_eq!(reader.join().unwrap(), b"through");
            assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}

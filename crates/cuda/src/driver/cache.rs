//! Assembled kernels on the disk: `~/.cache/anymetal/cubin`, or `$ANYMETAL_CACHE/cubin`.
//!
//! A file is named by a hash of what its contents depend on. It is written under a name of its own and renamed, so other
//! processes see it whole or not at all, and it carries its length and a hash: a file that does not fit them is ignored, and
//! replaced when its kernel has been assembled again. Nothing here fails: a cache that cannot be used is no cache.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where assembled kernels are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    folder: PathBuf,
}

/// What an assembled kernel depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key([u64; 2]);

/// First bytes of a file; the number is that of this format.
const MAGIC: &[u8; 8] = b"anycub01";
/// Magic, key, length and hash of the image.
const HEADER: usize = 8 + 16 + 8 + 16;

impl Key {
    /// The key of PTX for a compute capability and a driver's version. (Options of the compilation are in the PTX.)
    pub fn of(ptx: &str, sm: u32, driver: u32) -> Key {
        let place = format!("sm_{sm} driver {driver} crate {}\n", env!("CARGO_PKG_VERSION"));
        Key(hash([place.as_bytes(), ptx.as_bytes()]))
    }
}

impl Cache {
    /// The cache of this user; `None` where no folder is known, or where `ANYMETAL_CACHE` is empty.
    pub fn open() -> Option<Cache> {
        let from = |name: &str| std::env::var_os(name);
        if let Some(folder) = from("ANYMETAL_CACHE") {
            return (!folder.is_empty()).then(|| Cache::at(Path::new(&folder)));
        }
        let set = |name| from(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
        Some(Cache::at(&folder.join("anymetal")))
    }

    /// A cache in a folder, which is made when it is first needed.
    pub fn at(folder: &Path) -> Cache {
        Cache {
            folder: folder.join("cubin"),
        }
    }

    /// The file of a key.
    pub fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{:016x}{:016x}", key.0[0], key.0[1]))
    }

    /// What was kept under a key, if it is there and whole.
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let mut file = fs::read(self.path(key)).ok()?;
        let image = file.get(HEADER..)?;
        (file[..HEADER] == header(key, image)).then(|| file.split_off(HEADER))
    }

    /// Keeps an image under a key.
    pub fn put(&self, key: &Key, image: &[u8]) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let own = format!(
            ".{}-{}-{:x}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed),
            key.0[0]
        );
        let own = self.folder.join(own);
        let written = fs::create_dir_all(&self.folder)
            .and_then(|()| fs::File::create(&own))
            .and_then(|mut file| {
                file.write_all(&header(key, image))?;
                file.write_all(image)
            })
            .and_then(|()| fs::rename(&own, self.path(key)));
        if written.is_err() {
            // What is left of it, if anything, must not stay; if that fails too there is nothing more to do.
            let _ = fs::remove_file(&own);
        }
    }
}

fn header(key: &Key, image: &[u8]) -> [u8; HEADER] {
    let hash = hash([image, &[]]);
    let words = [key.0[0], key.0[1], image.len() as u64, hash[0], hash[1]];
    let mut out = [0; HEADER];
    out[..8].copy_from_slice(MAGIC);
    for (place, word) in out[8..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// 128 bits over two texts, by two multiply-and-fold lanes of eight bytes a step. Against accidents, not against people: who
/// can write to a user's cache can run programs as that user.
fn hash(texts: [&[u8]; 2]) -> [u64; 2] {
    const PRIMES: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
    let mut state = [0x2545_f491_4f6c_dd1d, 0x27d4_eb2f_1656_67c5];
    let mut take = |word: u64| {
        for (lane, prime) in state.iter_mut().zip(PRIMES) {
            let product = u128::from(*lane ^ word) * u128::from(prime);
            *lane = (product as u64 ^ (product >> 64) as u64)
                .rotate_left(23)
                .wrapping_add(prime ^ word.rotate_left(31));
        }
    };
    for text in texts {
        take(text.len() as u64);
        for chunk in text.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            take(u64::from_le_bytes(word));
        }
    }
    take(0);
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache in a folder of this test's own.
    struct Scratch(PathBuf, Cache);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let folder = std::env::temp_dir().join(format!("anymetal-cache-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            let cache = Cache::at(&folder);
            Scratch(folder, cache)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn keeps_and_finds() {
        let scratch = Scratch::new("keeps");
        let (key, other) = (Key::of("a", 90, 13000), Key::of("a", 80, 13000));
        assert_eq!(scratch.1.get(&key), None);
        scratch.1.put(&key, b"image");
        assert_eq!(scratch.1.get(&key).as_deref(), Some(&b"image"[..]));
        assert_eq!(scratch.1.get(&other), None);
        let names: Vec<_> = fs::read_dir(&scratch.1.folder).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing temporary stays");
    }

    #[test]
    fn keys_differ_in_everything_they_depend_on() {
        let all = [
            Key::of("a", 90, 13000),
            Key::of("b", 90, 13000),
            Key::of("a", 80, 13000),
            Key::of("a", 90, 12080),
            Key::of("a\0", 90, 13000),
            Key::of("", 90, 13000),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn corrupt_files_are_ignored_and_replaced() {
        let scratch = Scratch::new("corrupt");
        let key = Key::of("kernel", 90, 13000);
        let image: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
        scratch.1.put(&key, &image);
        let path = scratch.1.path(&key);
        let whole = fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[HEADER + 500] ^= 1;
        let mut longer = whole.clone();
        longer.push(0);
        let of_other_key = {
            let other = Key::of("other", 90, 13000);
            scratch.1.put(&other, &image);
            fs::read(scratch.1.path(&other)).unwrap()
        };
        let bad = [
            Vec::new(),
            whole[..HEADER - 1].to_vec(),
            whole[..whole.len() - 1].to_vec(),
            flipped,
            longer,
            of_other_key,
            b"something else altogether".to_vec(),
        ];
        for contents in bad {
            fs::write(&path, &contents).unwrap();
            assert_eq!(scratch.1.get(&key), None);
        }
        scratch.1.put(&key, &image);
        assert_eq!(scratch.1.get(&key).as_deref(), Some(&image[..]));
    }

    #[test]
    fn every_bit_counts() {
        let text: Vec<u8> = (0..40).collect();
        let whole = hash([&text, b"x"]);
        for bit in 0..text.len() * 8 {
            let mut other = text.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(hash([&other, b"x"]), whole);
        }
        assert_ne!(hash([b"ab", b"c"]), hash([b"a", b"bc"]));
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_no_failure() {
        let cache = Cache::at(Path::new("/dev/null/nowhere"));
        let key = Key::of("a", 90, 13000);
        cache.put(&key, b"image");
        assert_eq!(cache.get(&key), None);
    }

    /// Readers beside writers see whole images only. (`tests/cache_processes.rs` has the same with processes.)
    #[test]
    fn writers_do_not_disturb_readers() {
        let scratch = Scratch::new("threads");
        let key = Key::of("kernel", 90, 13000);
        let images: Vec<Vec<u8>> = (1..=4u8).map(|n| vec![n; 10_000 * usize::from(n)]).collect();
        scratch.1.put(&key, &images[0]);
        std::thread::scope(|scope| {
            for image in &images {
                let cache = &scratch.1;
                scope.spawn(move || (0..50).for_each(|_| cache.put(&key, image)));
            }
            for _ in 0..200 {
                let seen = scratch.1.get(&key).expect("a whole image is always there");
                assert!(images.contains(&seen));
            }
        });
    }
}

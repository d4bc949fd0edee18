//! Several processes write and read one cache of assembled kernels at the same time.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anymetal_cuda::driver::{Cache, Key};

/// Names the folder for the processes that this test starts; unset in the test itself.
const FOLDER: &str = "ANYMETAL_TEST_CACHE_FOLDER";
/// The number of such a process.
const NUMBER: &str = "ANYMETAL_TEST_CACHE_NUMBER";

fn key() -> Key {
    Key::of("one kernel", 90, 13000)
}

/// What process `number` writes: as many bytes as nobody else, so that mixtures show.
fn image(number: u8) -> Vec<u8> {
    vec![number; 20_000 + 1000 * usize::from(number)]
}

/// Writes and reads; a torn file would be a value that nobody wrote.
fn work(folder: &Path, number: u8) {
    let cache = Cache::at(folder);
    for _ in 0..100 {
        cache.put(&key(), &image(number));
        let seen = cache.get(&key()).expect("a whole image is there");
        assert!((1..=3).any(|number| seen == image(number)));
    }
}

fn start(folder: &Path, number: u8) -> Child {
    let program: PathBuf = std::env::current_exe().unwrap();
    Command::new(program)
        .args(["processes_do_not_disturb_each_other", "--exact", "--quiet"])
        .env(FOLDER, folder)
        .env(NUMBER, number.to_string())
        .spawn()
        .unwrap()
}

#[test]
fn processes_do_not_disturb_each_other() {
    if let (Some(folder), Ok(number)) = (std::env::var_os(FOLDER), std::env::var(NUMBER)) {
        work(Path::new(&folder), number.parse().unwrap());
        return;
    }
    let folder = std::env::temp_dir().join(format!("anymetal-cache-processes-{}", std::process::id()));
    let children: Vec<Child> = (1..=3).map(|number| start(&folder, number)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let last = Cache::at(&folder).get(&key()).unwrap();
    assert!((1..=3).any(|number| last == image(number)));
    let files = std::fs::read_dir(folder.join("cubin")).unwrap().count();
    assert_eq!(files, 1, "nothing temporary stays");
    std::fs::remove_dir_all(&folder).unwrap();
}

//! Prints the IR of a Metal source file.
use anymetal_msl::{CompileOptions, FunctionConstantValues, Library};
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let t = std::time::Instant::now();
    let mut options = CompileOptions::default();
    options.include_dirs.push("kernels/include".into());
    options.include_dirs.push("kernels".into());
    if let Ok(d) = std::env::var("INC") {
        options.include_dirs.push(d.into());
    }
    if let Ok(d) = std::env::var("DEF") {
        for d in d.split(',') {
            options.defines.push((d.into(), None));
        }
    }
    options.max_errors = 6;
    if std::env::args().nth(2).as_deref() == Some("-l") {
        options.lenient = true;
    }
    match Library::compile(&text, &path, &options) {
        Ok(l) => {
            eprintln!("{:?} kernels {}", t.elapsed(), l.kernels().len());
            let w = l.warnings();
            if !w.list.is_empty() {
                eprintln!("{}", w.render());
            }
            for k in l.kernels() {
                let kernel = l
                    .specialize(&k.name, &FunctionConstantValues::default())
                    .unwrap();
                if let Err(e) = anymetal_ir::verify(&kernel) {
                    println!("VERIFY {e:?}");
                }
                if std::env::args().nth(2).as_deref() == Some("-p") {
                    println!("{}", anymetal_ir::print(&kernel));
                }
            }
        }
        Err(e) => {
            println!("{}", e.render());
            std::process::exit(1)
        }
    }
}

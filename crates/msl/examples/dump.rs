//! Prints the kernel IR of a Metal source file: `cargo run -p anymetal-msl --example dump -- [--optimized] k.metal [include directory…]`.

use std::process::ExitCode;

use anymetal_msl::{CompileOptions, FunctionConstantValues, Library};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    let optimized = args.next_if(|arg| arg == "--optimized").is_some();
    let Some(path) = args.next() else {
        eprintln!("usage: dump [--optimized] FILE [INCLUDE DIRECTORY...]");
        return ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) => {
            eprintln!("{path}: {e}");
            return ExitCode::from(2);
        }
    };
    let options = CompileOptions {
        include_dirs: args.map(Into::into).collect(),
        ..CompileOptions::default()
    };
    let library = match Library::compile(&text, &path, &options) {
        Ok(library) => library,
        Err(e) => {
            eprintln!("{}", e.render());
            return ExitCode::FAILURE;
        }
    };
    eprint!("{}", library.warnings().render());
    let none = FunctionConstantValues::default();
    for info in library.kernels() {
        match library.specialize(&info.name, &none) {
            Ok(mut kernel) => {
                if optimized {
                    anymetal_ir::passes::optimize(&mut kernel);
                }
                println!("{}", anymetal_ir::print(&kernel));
            }
            Err(e) => eprintln!("{}", e.render()),
        }
    }
    ExitCode::SUCCESS
}

//! Prints the PTX of a kernel in the IR's text form: `ptx FILE.ir [TARGET] [checked] [THREADS] [sized]`, where all threadgroups have so many
//! threads; with `sized`, in one dimension.

use std::error::Error;

use anymetal_cuda::{PtxOptions, compile};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: ptx FILE.ir [TARGET] [checked] [THREADS] [sized]")?;
    let mut options = PtxOptions::default();
    for argument in arguments {
        match argument.as_str() {
            "checked" => options.checked = true,
            number if number.parse::<u32>().is_ok() => {
                options.threads = number.parse()?;
                options.whole = true;
            }
            "sized" => options.shape = Some([options.threads, 1, 1]),
            target => options.target = target.parse()?,
        }
    }
    let kernel = anymetal_ir::parse::parse(&std::fs::read_to_string(path)?)?;
    print!("{}", compile(&kernel, &options)?.text);
    Ok(())
}

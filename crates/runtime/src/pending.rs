//! Parts of the compiler and the executor that are not there yet, refused by name. Goes away when they are.

use std::sync::Arc;

use anymetal_cpu::{
    BoundArgument, CompileError, CpuOptions, DispatchError, DispatchOptions, DispatchReport,
    Launch, TensorTable,
};
use anymetal_ir::Kernel;
use anymetal_msl::sema::kernel::FunctionConstantValues;
use anymetal_msl::source::{SourceMap, Span};
use anymetal_msl::{CompileOptions, Diagnostic, Diagnostics};

fn refuse() -> Diagnostics {
    let sources = Arc::new(SourceMap::new());
    let list = vec![Diagnostic::error(
        "E0000",
        "this build cannot compile Metal source yet",
        Span::default(),
    )];
    Diagnostics { sources, list }
}

pub(crate) struct Library {
    warnings: Diagnostics,
}

impl Library {
    pub fn compile(_: &str, _: &str, _: &CompileOptions) -> Result<Self, Diagnostics> {
        Err(refuse())
    }

    pub fn kernels(&self) -> Vec<String> {
        Vec::new()
    }

    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }

    pub fn specialize(&self, _: &str, _: &FunctionConstantValues) -> Result<Kernel, Diagnostics> {
        Err(refuse())
    }
}

pub(crate) struct CpuKernel;

impl CpuKernel {
    pub fn compile(_: &Arc<Kernel>, _: &CpuOptions) -> Result<Self, CompileError> {
        Ok(Self)
    }

    pub fn dispatch(
        &self,
        _: &[BoundArgument],
        _: &Launch,
        _: &DispatchOptions,
        _: &dyn TensorTable,
    ) -> Result<DispatchReport, DispatchError> {
        let error = anymetal_cpu::LaunchError::OutOfMemory { bytes: 0 };
        Err(DispatchError::Launch {
            kernel: String::new(),
            error,
        })
    }
}

//! Settings of an engine: the operator's. None of them is seen by a module; what a module sees is the
//! profile: the table in the crate's documentation.

use std::ffi::OsString;
use std::path::PathBuf;

/// Settings of an [`crate::Engine`].
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// A folder for compiled modules, made with mode 0700 and never shared between machines. `None`: compiled modules
    /// live in memory only.
    pub cache: Option<PathBuf>,
    /// Where modules are compiled.
    pub compiler: Compiler,
    /// What they are compiled to.
    pub target: Target,
    /// What a module may need.
    pub limits: ModuleLimits,
    /// Most bytes of one run's memory. A run that needs more ends with [`crate::RunError::Limit`].
    pub memory_bytes: u64,
}

impl EngineConfig {
    /// Settings for a compiler: this processor, no cache on disk, the default limits, 4 GiB of memory a run.
    pub fn new(compiler: Compiler) -> EngineConfig {
        let target = Target::Host;
        EngineConfig { cache: None, compiler, target, limits: ModuleLimits::default(), memory_bytes: 4 << 30 }
    }
}

/// What modules are compiled to. A module gives the same bytes on each: the others are there to show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// This processor with all that it offers. The only one for real work.
    Host,
    /// This kind of processor with what each of them has: on x86-64 neither SSE3 nor anything newer.
    Baseline,
    /// Bytecode for wasmtime's interpreter, Pulley: no machine code of a module at all, many times slower.
    Interpreter,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 3] = [Target::Host, Target::Baseline, Target::Interpreter];

    /// `host`, `baseline` or `interpreter`.
    pub fn name(self) -> &'static str {
        match self {
            Target::Host => "host",
            Target::Baseline => "baseline",
            Target::Interpreter => "interpreter",
        }
    }
}

/// Where modules are compiled.
#[derive(Debug, Clone)]
pub enum Compiler {
    /// In a child process without files or network and with limits: a program that does nothing but call
    /// [`crate::compile_child_main`] when it is started with these arguments.
    Child {
        /// The program, usually this one.
        program: PathBuf,
        /// Its arguments.
        arguments: Vec<OsString>,
    },
    /// In this process, without limits on time and memory. For trusted modules and tests only.
    InProcess,
}

/// What a module may need. Anything more is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleLimits {
    /// Bytes of the module.
    pub module_bytes: u64,
    /// Functions that it defines.
    pub functions: u32,
    /// Bytes of one function's body.
    pub function_body_bytes: u64,
    /// Local variables of one function, parameters not counted.
    pub locals: u32,
    /// Bytes of the compiled form.
    pub artifact_bytes: u64,
    /// Bytes of address space of the compiling process.
    pub compile_memory_bytes: u64,
    /// Seconds of processor time of the compiling process.
    pub compile_cpu_seconds: u64,
    /// Seconds that compiling may take.
    pub compile_wall_seconds: u64,
    /// Compiling processes at one time; more wait.
    pub compiles_at_once: usize,
}

impl Default for ModuleLimits {
    /// Limits that large real programs (CPython, clang) keep within.
    fn default() -> ModuleLimits {
        ModuleLimits {
            module_bytes: 128 << 20,
            functions: 500_000,
            function_body_bytes: 4 << 20,
            locals: 50_000,
            artifact_bytes: 1 << 30,
            compile_memory_bytes: 8 << 30,
            compile_cpu_seconds: 300,
            compile_wall_seconds: 300,
            compiles_at_once: 2,
        }
    }
}

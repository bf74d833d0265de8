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
    /// What a module may need, where a load names no other limits.
    pub limits: ModuleLimits,
    /// Compiling processes at one time, at least 2; more wait. One place is kept for modules that compile within seconds.
    pub compiles_at_once: usize,
    /// Most bytes of one run's memory. A run that needs more ends with [`crate::RunError::Limit`].
    pub memory_bytes: u64,
}

impl EngineConfig {
    /// Settings for a compiler: this processor, no cache on disk, the default limits, two compiles at once and 4 GiB of memory
    /// a run.
    pub fn new(compiler: Compiler) -> EngineConfig {
        let (target, limits) = (Target::Host, ModuleLimits::default());
        EngineConfig { cache: None, compiler, target, limits, compiles_at_once: 2, memory_bytes: 4 << 30 }
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

/// What a module may need. Anything more is refused. The counts are read before a byte is compiled; what they do not bound
/// (the compiler's time and memory) is bounded in the compiling process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleLimits {
    /// Bytes of the module.
    pub module_bytes: u64,
    /// Function types that it declares.
    pub types: u32,
    /// Imports; a module may name one more than once.
    pub imports: u32,
    /// Functions that it defines.
    pub functions: u32,
    /// Tables.
    pub tables: u32,
    /// Globals.
    pub globals: u32,
    /// Tags of exceptions.
    pub tags: u32,
    /// Exports.
    pub exports: u32,
    /// Segments of data, and as many of elements.
    pub segments: u32,
    /// Elements of all element segments together.
    pub elements: u64,
    /// Bytes of one function's body.
    pub function_body_bytes: u64,
    /// Local variables of one function, parameters not counted.
    pub locals: u32,
    /// Local variables of all functions together.
    pub all_locals: u64,
    /// Blocks inside each other in one function.
    pub nesting: u32,
    /// Targets of all branch tables of one function.
    pub branch_targets: u64,
    /// Bytes of the compiled form.
    pub artifact_bytes: u64,
    /// Bytes of address space of the compiling process.
    pub compile_memory_bytes: u64,
    /// Seconds of processor time of the compiling process.
    pub compile_cpu_seconds: u64,
    /// Seconds that compiling may take. Far more than of processor time, since a busy machine gives it little.
    pub compile_wall_seconds: u64,
}

impl Default for ModuleLimits {
    /// Limits that large real programs (CPython, clang) keep within.
    fn default() -> ModuleLimits {
        ModuleLimits {
            module_bytes: 128 << 20,
            types: 100_000,
            imports: 10_000,
            functions: 500_000,
            tables: 100,
            globals: 100_000,
            tags: 10_000,
            exports: 200_000,
            segments: 100_000,
            elements: 2_000_000,
            function_body_bytes: 4 << 20,
            locals: 50_000,
            all_locals: 20_000_000,
            nesting: 20_000,
            branch_targets: 200_000,
            artifact_bytes: 1 << 30,
            compile_memory_bytes: 8 << 30,
            compile_cpu_seconds: 300,
            compile_wall_seconds: 1500,
        }
    }
}

impl ModuleLimits {
    /// Limits for modules of people who are not trusted with more: 16 MiB, and a minute of processor time.
    pub fn narrow() -> ModuleLimits {
        ModuleLimits {
            module_bytes: 16 << 20,
            artifact_bytes: 256 << 20,
            compile_memory_bytes: 3 << 30,
            compile_cpu_seconds: 60,
            compile_wall_seconds: 600,
            ..ModuleLimits::default()
        }
    }

    /// Is every limit of `other` at most as high as the one here? Then what is refused under these is refused under `other`.
    pub(crate) fn covers(&self, other: &ModuleLimits) -> bool {
        self.numbers().iter().zip(other.numbers()).all(|(own, other)| *own >= other)
    }

    fn numbers(&self) -> [u64; 19] {
        let counts = [self.types, self.imports, self.functions, self.tables, self.globals, self.tags, self.exports];
        let [types, imports, functions, tables, globals, tags, exports] = counts.map(u64::from);
        let [segments, locals, nesting] = [self.segments, self.locals, self.nesting].map(u64::from);
        [
            types,
            imports,
            functions,
            tables,
            globals,
            tags,
            exports,
            segments,
            locals,
            nesting,
            self.module_bytes,
            self.elements,
            self.function_body_bytes,
            self.all_locals,
            self.branch_targets,
            self.artifact_bytes,
            self.compile_memory_bytes,
            self.compile_cpu_seconds,
            self.compile_wall_seconds,
        ]
    }
}

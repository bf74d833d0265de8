//! What a module is, read without compiling it: cheap, and before anything else is done with untrusted bytes.

use crate::error::{DETAIL, printable};
use crate::link::{IMPORTS, Import};
use crate::profile::TABLE_ELEMENTS;
use crate::{ModuleError, ModuleLimits};
use wasmparser::{
    BinaryReaderError, ElementItems, ElementSectionReader, Encoding, ExportSectionReader, ExternalKind, FuncType,
    FunctionBody, ImportSectionReader, Operator, Parser, Payload, TypeRef, ValType,
};

/// What a module is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleInfo {
    /// Bytes of the module.
    pub bytes: u64,
    /// Functions that it defines.
    pub functions: u32,
    /// Module and name of each import, in the module's order. All are offered by the world.
    pub imports: Vec<(String, String)>,
    /// Pages (64 KiB each) of memory that it starts with.
    pub memory_pages: u64,
}

/// Refuses a module for its length alone.
pub(crate) fn check_length(bytes: u64, limits: &ModuleLimits) -> Result<(), ModuleError> {
    check("size in bytes", bytes, limits.module_bytes)
}

/// Reads a module's sections.
pub(crate) fn inspect(bytes: &[u8], limits: &ModuleLimits) -> Result<ModuleInfo, ModuleError> {
    check_length(bytes.len() as u64, limits)?;
    let mut reading = Reading { limits: *limits, ..Reading::default() };
    for payload in Parser::new(0).parse_all(bytes) {
        reading.payload(payload.map_err(malformed)?)?;
    }
    reading.finish(bytes.len() as u64)
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    limits: ModuleLimits,
    types: Vec<FuncType>,
    /// Type of each function, imported ones first.
    functions: Vec<u32>,
    imported: usize,
    imports: Vec<(String, String)>,
    refused: Vec<(String, String)>,
    refused_in_all: usize,
    needs_memory: bool,
    memory_pages: u64,
    table_elements: u64,
    locals: u64,
    start: Option<u32>,
    exports_memory: bool,
}

/// Most imports that a refusal names, and most characters of each of their names.
const WANTED: usize = 100;
const NAME: usize = 200;

impl Reading {
    fn payload(&mut self, payload: Payload<'_>) -> Result<(), ModuleError> {
        let limits = self.limits;
        match payload {
            Payload::Version { encoding: Encoding::Component, .. } => return Err(ModuleError::Component),
            Payload::TypeSection(types) => {
                count("number of types", types.count(), limits.types)?;
                self.types = types.into_iter_err_on_gc_types().collect::<Result<_, _>>().map_err(malformed)?;
            }
            Payload::ImportSection(imports) => self.imports(imports)?,
            Payload::FunctionSection(functions) => {
                count("number of functions", functions.count(), limits.functions)?;
                for ty in functions {
                    self.functions.push(ty.map_err(malformed)?);
                }
            }
            Payload::TableSection(tables) => {
                count("number of tables", tables.count(), limits.tables)?;
                for table in tables {
                    let initial = table.map_err(malformed)?.ty.initial;
                    self.table_elements = self.table_elements.saturating_add(initial);
                }
                check("number of table elements", self.table_elements, TABLE_ELEMENTS as u64)?;
            }
            Payload::MemorySection(memories) => {
                check("number of memories", u64::from(memories.count()), 1)?;
                for memory in memories {
                    self.memory_pages = self.memory_pages.saturating_add(memory.map_err(malformed)?.initial);
                }
            }
            Payload::GlobalSection(globals) => count("number of globals", globals.count(), limits.globals)?,
            Payload::TagSection(tags) => count("number of tags", tags.count(), limits.tags)?,
            Payload::ExportSection(exports) => self.exports(exports)?,
            Payload::DataSection(data) => count("number of data segments", data.count(), limits.segments)?,
            Payload::DataCountSection { count: segments, .. } => {
                count("number of data segments", segments, limits.segments)?;
            }
            Payload::ElementSection(elements) => self.elements(elements)?,
            Payload::CodeSectionEntry(body) => self.body(&body)?,
            _ => {}
        }
        Ok(())
    }

    fn imports(&mut self, imports: ImportSectionReader<'_>) -> Result<(), ModuleError> {
        count("number of imports", imports.count(), self.limits.imports)?;
        for import in imports.into_imports() {
            let import = import.map_err(malformed)?;
            let offered = IMPORTS.iter().find(|known| known.module == import.module && known.name == import.name);
            match (offered, import.ty) {
                (Some(known), TypeRef::Func(ty)) if self.has_signature(ty, known) => {
                    self.functions.push(ty);
                    self.needs_memory |= known.needs_memory();
                    self.imports.push((import.module.to_owned(), import.name.to_owned()));
                }
                _ => {
                    self.refused_in_all += 1;
                    if self.refused.len() < WANTED {
                        let typed = if offered.is_some() { " (with another type)" } else { "" };
                        self.refused.push((shortened(import.module), shortened(import.name) + typed));
                    }
                }
            }
        }
        self.imported = self.functions.len();
        Ok(())
    }

    fn exports(&mut self, exports: ExportSectionReader<'_>) -> Result<(), ModuleError> {
        count("number of exports", exports.count(), self.limits.exports)?;
        for export in exports {
            let export = export.map_err(malformed)?;
            match (export.name, export.kind) {
                ("_start", ExternalKind::Func) => self.start = Some(export.index),
                ("memory", ExternalKind::Memory) => self.exports_memory = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn elements(&self, segments: ElementSectionReader<'_>) -> Result<(), ModuleError> {
        count("number of element segments", segments.count(), self.limits.segments)?;
        let mut all: u64 = 0;
        for segment in segments {
            let elements = match segment.map_err(malformed)?.items {
                ElementItems::Functions(functions) => functions.count(),
                ElementItems::Expressions(_, expressions) => expressions.count(),
            };
            all = all.saturating_add(u64::from(elements));
        }
        check("number of elements", all, self.limits.elements)
    }

    fn has_signature(&self, ty: u32, known: &Import) -> bool {
        let Some(ty) = self.types.get(ty as usize) else { return false };
        let expected = known.wide.iter().map(|wide| if *wide { ValType::I64 } else { ValType::I32 });
        let results: &[ValType] = if known.result { &[ValType::I32] } else { &[] };
        ty.params().iter().copied().eq(expected) && ty.results() == results
    }

    fn body(&mut self, body: &FunctionBody<'_>) -> Result<(), ModuleError> {
        check("largest function in bytes", body.range().len() as u64, self.limits.function_body_bytes)?;
        let mut locals: u64 = 0;
        for local in body.get_locals_reader().map_err(malformed)? {
            locals = locals.saturating_add(u64::from(local.map_err(malformed)?.0));
        }
        check("number of local variables in one function", locals, u64::from(self.limits.locals))?;
        self.locals = self.locals.saturating_add(locals);
        check("number of local variables", self.locals, self.limits.all_locals)?;
        self.shape(body)
    }

    /// How deep a function's blocks stand in each other, and how wide its branch tables are.
    fn shape(&self, body: &FunctionBody<'_>) -> Result<(), ModuleError> {
        let (mut depth, mut targets) = (0_u32, 0_u64);
        let mut operators = body.get_operators_reader().map_err(malformed)?;
        while !operators.eof() {
            match operators.read().map_err(malformed)? {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::TryTable { .. } => {
                    depth = depth.saturating_add(1);
                    count("depth of blocks in one function", depth, self.limits.nesting)?;
                }
                Operator::End => depth = depth.saturating_sub(1),
                Operator::BrTable { targets: table } => targets = targets.saturating_add(u64::from(table.len())),
                _ => {}
            }
        }
        check("number of branch targets in one function", targets, self.limits.branch_targets)
    }

    fn finish(self, bytes: u64) -> Result<ModuleInfo, ModuleError> {
        if !self.refused.is_empty() {
            return Err(ModuleError::Imports { wanted: self.refused, count: self.refused_in_all });
        }
        let start = self.start.and_then(|index| self.functions.get(index as usize));
        let start = start.and_then(|ty| self.types.get(*ty as usize));
        if !start.is_some_and(|ty| ty.params().is_empty() && ty.results().is_empty()) {
            return Err(ModuleError::NoStart);
        }
        if self.needs_memory && !self.exports_memory {
            return Err(ModuleError::NoMemory);
        }
        let functions = u32::try_from(self.functions.len() - self.imported).unwrap_or(u32::MAX);
        Ok(ModuleInfo { bytes, functions, imports: self.imports, memory_pages: self.memory_pages })
    }
}

fn count(what: &'static str, actual: u32, limit: u32) -> Result<(), ModuleError> {
    check(what, u64::from(actual), u64::from(limit))
}

/// A name that nobody offers, as far as it is shown.
fn shortened(name: &str) -> String {
    name.chars().take(NAME).collect()
}

fn check(what: &'static str, actual: u64, limit: u64) -> Result<(), ModuleError> {
    if actual > limit { Err(ModuleError::TooLarge { what, actual, limit }) } else { Ok(()) }
}

fn malformed(error: BinaryReaderError) -> ModuleError {
    // The parser shows bytes over several lines.
    let words: Vec<String> = error.to_string().split_whitespace().map(str::to_owned).collect();
    ModuleError::Malformed { detail: printable(&words.join(" "), DETAIL) }
}

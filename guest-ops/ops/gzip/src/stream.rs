//! Compressing and decompressing a stream, with constant memory.

use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder, GzHeader};
use opship_guest::Meter;
use opship_ops_common::reason;
use std::ffi::CString;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};

/// Bytes moved by one call of the world; calls are what costs.
const BUFFER: usize = 128 << 10;

/// Unix, as GNU gzip writes it.
const OPERATING_SYSTEM: u8 = 3;

#[derive(Debug)]
pub(crate) enum StreamError {
    Read(io::Error),
    Write(io::Error),
    NotGzip,
    UnknownMethod(u8),
    Truncated,
    /// Bits that no deflate stream has, or a checksum or length that does not agree.
    Corrupt(io::Error),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) | Self::Write(error) => f.write_str(&reason(error)),
            Self::NotGzip => f.write_str("not in gzip format"),
            Self::UnknownMethod(method) => write!(f, "unknown method {method} -- not supported"),
            Self::Truncated => f.write_str("unexpected end of file"),
            Self::Corrupt(error) => write!(f, "invalid compressed data--{}", reason(error)),
        }
    }
}

/// What a header keeps besides the data.
#[derive(Debug, Default, Clone)]
pub(crate) struct Saved {
    pub(crate) name: Option<Vec<u8>>,
    /// Seconds since 1970; 0: not known.
    pub(crate) mtime: u32,
}

/// What was read and written.
#[derive(Debug, Default, Clone)]
pub(crate) struct Summary {
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// Bytes of headers and trailers among the compressed ones.
    pub(crate) overhead: u64,
    /// The first member's header.
    pub(crate) saved: Saved,
    pub(crate) trailing: Trailing,
}

/// What follows the last member.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trailing {
    #[default]
    Nothing,
    Zeros,
    Garbage,
}

pub(crate) fn compress(
    input: impl Read,
    output: impl Write,
    saved: &Saved,
    level: u32,
    total: Option<u64>,
) -> Result<Summary, StreamError> {
    let mut builder = GzBuilder::new().mtime(saved.mtime).operating_system(OPERATING_SYSTEM);
    // Fixed header, trailer, and the name with its NUL.
    let mut overhead = 10 + 8;
    // A name with a NUL does not exist in a file system.
    if let Some(name) = saved.name.as_ref().and_then(|n| CString::new(n.as_slice()).ok()) {
        overhead += name.as_bytes_with_nul().len() as u64;
        builder = builder.filename(name);
    }
    let mut counted = Counting { inner: output, count: 0 };
    let mut encoder = builder.write(&mut counted, Compression::new(level));
    let read = Pump::new(total).copy(input, &mut encoder, StreamError::Read)?;
    encoder.finish().map_err(StreamError::Write)?;
    counted.flush().map_err(StreamError::Write)?;
    Ok(Summary { read, written: counted.count, overhead, ..Summary::default() })
}

/// Moves bytes and counts them.
struct Pump {
    buffer: Vec<u8>,
    meter: Meter,
}

impl Pump {
    fn new(total: Option<u64>) -> Self {
        Self { buffer: vec![0; BUFFER], meter: Meter::new(total) }
    }

    /// Copies all of `input`; how many bytes it had. `failed` says what an error of reading is.
    fn copy(
        &mut self,
        mut input: impl Read,
        output: &mut impl Write,
        failed: fn(io::Error) -> StreamError,
    ) -> Result<u64, StreamError> {
        let mut done = 0;
        loop {
            let n = match input.read(&mut self.buffer) {
                Ok(0) => return Ok(done),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            output.write_all(&self.buffer[..n]).map_err(StreamError::Write)?;
            done += n as u64;
            self.meter.add(n as u64);
        }
    }
}

/// Decompresses all members of `input`. `open` makes the output once the first header is known; with
/// `pass_through` what is not compressed is copied as it is.
pub(crate) fn decompress<W: Write>(
    input: impl Read,
    open: impl FnOnce(&Saved) -> io::Result<W>,
    pass_through: bool,
    total: Option<u64>,
) -> Result<Summary, StreamError> {
    let mut input = BufReader::with_capacity(BUFFER, Counting { inner: input, count: 0 });
    let mut summary = Summary::default();
    let mut pump = Pump::new(total);

    let head = peek(&mut input)?;
    match &head[..] {
        [0x1f, 0x8b, 8] => {}
        [0x1f, 0x8b, method] => return Err(StreamError::UnknownMethod(*method)),
        [0x1f, 0x8b] => return Err(StreamError::Truncated),
        [] if !pass_through => return Err(StreamError::Truncated),
        _ if !pass_through => return Err(StreamError::NotGzip),
        _ => {
            let mut output = open(&Saved::default()).map_err(StreamError::Write)?;
            summary.written = pump.copy((&head[..]).chain(input), &mut output, StreamError::Read)?;
            output.flush().map_err(StreamError::Write)?;
            return Ok(summary);
        }
    }

    let mut decoder = GzDecoder::new((&head[..]).chain(&mut input));
    summary.saved = decoder.header().map(saved).unwrap_or_default();
    let mut output = open(&summary.saved).map_err(StreamError::Write)?;
    member(&mut decoder, &mut output, &mut summary, &mut pump)?;
    loop {
        let head = peek(&mut input)?;
        if !head.starts_with(&[0x1f, 0x8b]) {
            summary.trailing = trailing(&head, &mut input)?;
            break;
        }
        let mut decoder = GzDecoder::new((&head[..]).chain(&mut input));
        member(&mut decoder, &mut output, &mut summary, &mut pump)?;
    }
    output.flush().map_err(StreamError::Write)?;
    summary.read = input.get_ref().count - input.buffer().len() as u64;
    Ok(summary)
}

/// Up to three bytes, so that a member is told from what is none. They are read: chain them.
fn peek(input: &mut impl Read) -> Result<Vec<u8>, StreamError> {
    let mut head = Vec::with_capacity(3);
    input.by_ref().take(3).read_to_end(&mut head).map_err(StreamError::Read)?;
    Ok(head)
}

fn member<R: BufRead>(
    decoder: &mut GzDecoder<R>,
    output: &mut impl Write,
    summary: &mut Summary,
    pump: &mut Pump,
) -> Result<(), StreamError> {
    summary.overhead += decoder.header().map_or(0, overhead);
    summary.written += pump.copy(decoder, output, decoding)?;
    Ok(())
}

/// Sorts out what the decoder says: its own findings have no errno.
fn decoding(error: io::Error) -> StreamError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => StreamError::Truncated,
        _ if error.raw_os_error().is_some() => StreamError::Read(error),
        _ => StreamError::Corrupt(error),
    }
}

fn saved(header: &GzHeader) -> Saved {
    Saved { name: header.filename().map(<[u8]>::to_vec), mtime: header.mtime() }
}

/// Bytes of a member that are not its compressed data.
fn overhead(header: &GzHeader) -> u64 {
    let text = |bytes: Option<&[u8]>| bytes.map_or(0, |b| b.len() as u64 + 1);
    let extra = header.extra().map_or(0, |b| b.len() as u64 + 2);
    10 + 8 + text(header.filename()) + text(header.comment()) + extra
}

/// What the bytes are that follow the last member, the first of them being `head`.
fn trailing(head: &[u8], input: &mut impl BufRead) -> Result<Trailing, StreamError> {
    if head.is_empty() {
        return Ok(Trailing::Nothing);
    }
    let mut zeros = head.iter().all(|&b| b == 0);
    while zeros {
        let buffer = input.fill_buf().map_err(StreamError::Read)?;
        if buffer.is_empty() {
            return Ok(Trailing::Zeros);
        }
        zeros = buffer.iter().all(|&b| b == 0);
        let n = buffer.len();
        input.consume(n);
    }
    Ok(Trailing::Garbage)
}

/// Counts the bytes that pass.
struct Counting<T> {
    inner: T,
    count: u64,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.count += n as u64;
        Ok(n)
    }
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(buffer)?;
        self.count += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// An error of making the output.
impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

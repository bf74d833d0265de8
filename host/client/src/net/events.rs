//! Following a workspace: server-sent events, one for each move of the head, and signs of life between them.

use super::api::Api;
use super::{BodyReader, RequestBody};
use crate::ClientError;
use bytes::{Buf, BytesMut};
use http::Method;
use std::time::Duration;

/// Longest line taken.
const MAX_LINE: usize = 4096;
/// How late a sign of life may be.
const LATE: Duration = Duration::from_secs(60);

/// The stream of a workspace's events. It is a connection of its own.
#[derive(Debug)]
pub struct Events {
    body: BodyReader,
    lines: Lines,
}

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The head is this version now.
    Head(u64),
    /// Nothing has happened, and the server is there.
    Alive,
}

impl Api {
    /// Follows the workspace from version `after` on, with a sign of life every `beat` seconds.
    ///
    /// # Errors
    /// [`ClientError`] from the network or the server.
    pub async fn events(&mut self, after: u64, beat: u64) -> Result<Events, ClientError> {
        // Nothing comes between the signs of life.
        self.transport.bear(Duration::from_secs(beat) + LATE);
        let path = self.path(&format!("/events?after={after}&beat={beat}"));
        let response = self.transport.send(Method::GET, &path, &[], RequestBody::bytes("")).await?;
        Ok(Events { body: response.body, lines: Lines::default() })
    }
}

impl Events {
    /// The next event; `None` when the server has ended the stream.
    ///
    /// # Errors
    /// [`ClientError::Connection`]; [`ClientError::Protocol`] for what is no stream of events.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.lines.next()? {
                return Ok(Some(event));
            }
            match self.body.piece().await? {
                Some(piece) => self.lines.buffer.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }
}

/// Bytes that are not a whole line yet, and what lines before said.
#[derive(Debug, Default)]
struct Lines {
    buffer: BytesMut,
    data: Option<u64>,
}

impl Lines {
    fn next(&mut self) -> Result<Option<Event>, ClientError> {
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line = self.buffer.split_to(end);
            self.buffer.advance(1);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if line.starts_with(b":") {
                return Ok(Some(Event::Alive));
            }
            if line.is_empty() {
                if let Some(head) = self.data.take() {
                    return Ok(Some(Event::Head(head)));
                }
            } else if let Some(data) = line.strip_prefix(b"data:") {
                let number = std::str::from_utf8(data).ok().and_then(|text| text.trim().parse().ok());
                self.data = Some(number.ok_or_else(|| no_event("its data is no version"))?);
            }
        }
        if self.buffer.len() > MAX_LINE {
            return Err(no_event("a line of it is too long"));
        }
        Ok(None)
    }
}

fn no_event(detail: &str) -> ClientError {
    ClientError::Protocol { detail: format!("what came is no event: {detail}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(bytes: &[u8], pieces: usize) -> Result<Vec<Event>, ClientError> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in bytes.chunks(pieces) {
            lines.buffer.extend_from_slice(piece);
            while let Some(event) = lines.next()? {
                found.push(event);
            }
        }
        Ok(found)
    }

    #[test]
    fn events_and_signs_of_life_come_out_of_any_pieces() {
        let bytes = b":\nid: 7\ndata: 7\n\nevent: unknown\r\nretry: 5\r\ndata:8\r\n\r\n:\n\n";
        let expected = [Event::Alive, Event::Head(7), Event::Head(8), Event::Alive];
        for pieces in 1..bytes.len() {
            assert_eq!(read(bytes, pieces).unwrap(), expected, "in pieces of {pieces}");
        }
    }

    #[test]
    fn what_is_no_event_is_refused() {
        assert!(read(b"data: seven\n\n", 100).is_err());
        assert!(read(&[b'x'; 5000], 100).is_err());
    }
}

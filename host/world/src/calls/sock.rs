//! Sockets: there are none.

use crate::{Errno, Trap, World};

impl World {
    /// `sock_accept` of preview 1.
    pub fn sock_accept(&mut self, _memory: &mut [u8], fd: u32, _flags: u32, _out: u32) -> Result<(), Trap> {
        self.no_socket(fd)
    }

    /// `sock_recv` of preview 1.
    #[expect(clippy::too_many_arguments, reason = "the arguments are those of preview 1")]
    pub fn sock_recv(
        &mut self,
        _memory: &mut [u8],
        fd: u32,
        _iovs: u32,
        _iovs_len: u32,
        _flags: u32,
        _nread: u32,
        _out_flags: u32,
    ) -> Result<(), Trap> {
        self.no_socket(fd)
    }

    /// `sock_send` of preview 1.
    pub fn sock_send(
        &mut self,
        _memory: &mut [u8],
        fd: u32,
        _iovs: u32,
        _iovs_len: u32,
        _flags: u32,
        _nwritten: u32,
    ) -> Result<(), Trap> {
        self.no_socket(fd)
    }

    /// `sock_shutdown` of preview 1.
    pub fn sock_shutdown(&mut self, _memory: &mut [u8], fd: u32, _how: u32) -> Result<(), Trap> {
        self.no_socket(fd)
    }

    fn no_socket(&self, fd: u32) -> Result<(), Trap> {
        self.descriptors.get(fd)?;
        Err(Errno::Notsock.into())
    }
}

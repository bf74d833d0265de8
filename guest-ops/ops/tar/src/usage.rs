//! What may stand on the command line.

use opship_ops_common::args::{Spec, flag, with_value};

pub(crate) const VERSION: &str = concat!("tar (opship) ", env!("CARGO_PKG_VERSION"), "\n");

pub(crate) const HELP: &str = "\
Usage: tar -c [OPTION]... FILE...     create an archive
       tar -t [OPTION]... [MEMBER]...  list an archive
       tar -x [OPTION]... [MEMBER]...  extract an archive

  -f, --file=ARCHIVE        the archive; - (default): standard output or input
  -v, --verbose             list what is done; twice: in detail
  -z, --gzip                compress by gzip; compressed archives are read in any case
  -a, --auto-compress       compress if the archive's name ends in .gz or .tgz
  -C, --directory=DIR       change to DIR first
  -T, --files-from=FILE     take names also from FILE, one a line
      --null                names in FILE end with NUL
      --exclude=PATTERN     leave out what fits PATTERN
  -X, --exclude-from=FILE   leave out what fits a pattern in FILE

Creating:
  -h, --dereference         store what symbolic links lead to
      --no-recursion        do not store what is in directories
      --mtime=DATE|FILE     store this time: @SECONDS, YYYY-MM-DD[ HH:MM[:SS]] (UTC), or a file's
      --format=gnu|pax      pax keeps parts of a second (default: gnu)
Members are in the order of their names' bytes, owned by 0/0, so that the same files make the same archive.

Extracting:
  -k, --keep-old-files      an existing file is an error
      --skip-old-files      existing files stay
  -m, --touch               do not set times
  -O, --to-stdout           write contents to standard output
  -p, --preserve-permissions  modes as stored, not less 022
      --strip-components=N  leave out the first N components of names
      --wildcards           MEMBERs are patterns
  -i, --ignore-zeros        read on after the end mark
Nothing is written outside the directory, nor through a symbolic link.

      --help, --version     show this help, the version
Exit status: 0 done, 1 a file changed while it was read, 2 error.
";

pub(crate) const SPECS: &[Spec] = &[
    flag('c', "create"),
    flag('t', "list"),
    flag('x', "extract"),
    flag(' ', "get"),
    flag('A', "catenate"),
    flag(' ', "concatenate"),
    flag('r', "append"),
    flag('u', "update"),
    flag('d', "diff"),
    flag(' ', "compare"),
    flag(' ', "delete"),
    with_value('f', "file"),
    flag('v', "verbose"),
    flag('z', "gzip"),
    flag(' ', "gunzip"),
    flag(' ', "ungzip"),
    flag('a', "auto-compress"),
    flag('j', "bzip2"),
    flag('J', "xz"),
    flag(' ', "zstd"),
    with_value('C', "directory"),
    with_value('T', "files-from"),
    flag(' ', "null"),
    with_value(' ', "exclude"),
    with_value('X', "exclude-from"),
    flag('h', "dereference"),
    flag(' ', "no-recursion"),
    with_value(' ', "mtime"),
    with_value('H', "format"),
    flag(' ', "posix"),
    flag('k', "keep-old-files"),
    flag(' ', "skip-old-files"),
    flag('m', "touch"),
    flag('O', "to-stdout"),
    flag('p', "preserve-permissions"),
    flag(' ', "same-permissions"),
    flag(' ', "no-same-permissions"),
    with_value(' ', "strip-components"),
    flag(' ', "wildcards"),
    flag('i', "ignore-zeros"),
    with_value(' ', "sort"),
    with_value(' ', "owner"),
    with_value(' ', "group"),
    flag(' ', "numeric-owner"),
    flag('o', "no-same-owner"),
    flag(' ', "same-owner"),
    flag('U', "unlink-first"),
    flag('S', "sparse"),
    flag('P', "absolute-names"),
    flag(' ', "utc"),
    flag('B', "read-full-records"),
    with_value('b', "blocking-factor"),
    flag(' ', "help"),
    flag(' ', "version"),
];

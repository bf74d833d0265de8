//! By what a key is compared: the letters after a key or before all of them.

/// What the letters say, as they were given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Letters {
    pub(crate) blanks_start: bool,
    pub(crate) blanks_end: bool,
    pub(crate) dictionary: bool,
    pub(crate) fold: bool,
    pub(crate) general: bool,
    pub(crate) human: bool,
    pub(crate) printing: bool,
    pub(crate) month: bool,
    pub(crate) numeric: bool,
    pub(crate) reverse: bool,
    pub(crate) version: bool,
}

impl Letters {
    /// Adds a letter other than `b`; whether it is one.
    pub(crate) fn add(&mut self, letter: u8) -> bool {
        let flag = match letter {
            b'd' => &mut self.dictionary,
            b'f' => &mut self.fold,
            b'g' => &mut self.general,
            b'h' => &mut self.human,
            b'i' => &mut self.printing,
            b'M' => &mut self.month,
            b'n' => &mut self.numeric,
            b'r' => &mut self.reverse,
            b'V' => &mut self.version,
            _ => return false,
        };
        *flag = true;
        true
    }

    /// Whether a key without letters of its own would be compared as plain bytes.
    pub(crate) fn is_default(self) -> bool {
        Self { reverse: false, ..self } == Self::default()
    }

    /// # Errors
    /// Letters that exclude each other.
    pub(crate) fn order(self) -> Result<Order, String> {
        let ignoring = self.dictionary || self.printing;
        let ways = [self.numeric, self.general, self.human, self.month, self.version || ignoring];
        if ways.iter().filter(|&&way| way).count() > 1 {
            return Err(format!("options '-{}' are incompatible", self.text()));
        }
        let by = match ways {
            [true, ..] => By::Numeric,
            [_, true, ..] => By::General,
            [_, _, true, ..] => By::Human,
            [_, _, _, true, _] => By::Month,
            _ if self.version => By::Version,
            _ => By::Bytes,
        };
        let look_at = match (self.dictionary, self.printing) {
            (true, _) => LookAt::Dictionary,
            (false, true) => LookAt::Printing,
            (false, false) => LookAt::All,
        };
        Ok(Order { by, look_at, fold: self.fold, reverse: self.reverse })
    }

    fn text(self) -> String {
        [
            ('d', self.dictionary),
            ('g', self.general),
            ('h', self.human),
            ('i', self.printing),
            ('M', self.month),
            ('n', self.numeric),
            ('V', self.version),
        ]
        .iter()
        .filter_map(|&(letter, given)| given.then_some(letter))
        .collect()
    }
}

/// The way of comparing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Bytes,
    Numeric,
    General,
    Human,
    Month,
    Version,
}

/// Which bytes are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookAt {
    All,
    Dictionary,
    Printing,
}

/// How a key is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) by: By,
    pub(crate) look_at: LookAt,
    pub(crate) fold: bool,
    pub(crate) reverse: bool,
}

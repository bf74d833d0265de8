//! `tar -t`.

use crate::member::{self, Member};
use crate::options::Job;
use crate::read::{self, Visitor};
use crate::select::Selection;
use crate::session::Session;
use std::io::Read;

pub(crate) fn run(job: &Job, session: &mut Session) -> Result<(), String> {
    let mut lister = Lister { job, session, selection: Selection::new(job), width: member::WIDTH };
    read::all(job, &mut lister)?;
    lister.selection.finish(lister.session);
    Ok(())
}

struct Lister<'a> {
    job: &'a Job,
    session: &'a mut Session,
    selection: Selection<'a>,
    width: usize,
}

impl Visitor for Lister<'_> {
    fn visit(&mut self, member: &Member, _content: &mut dyn Read) -> Result<(), String> {
        if self.selection.base(&member.name).is_none() {
            return Ok(());
        }
        match self.job.verbose {
            0 => self.session.list_name(&member.name),
            _ => self.session.list(&member.line(&mut self.width)),
        }
    }
}

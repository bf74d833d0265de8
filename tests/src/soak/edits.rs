//! Edits as people and programs make them, on few names, so that clients meet.

use super::books::Books;
use super::chance::Chance;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const FOLDERS: [&str; 5] = ["", "d", "d/e", "f", "f/g"];
const NAMES: [&str; 8] = ["a", "b.txt", "c", "d.csv", "ä ö", "x y", "A", "notes"];

/// A path that an edit may be about.
pub(super) fn path(folder: &Path, chance: &mut Chance) -> PathBuf {
    folder.join(chance.one(&FOLDERS)).join(chance.one(&NAMES))
}

/// A file that is there.
pub(super) fn file(folder: &Path, chance: &mut Chance) -> Option<PathBuf> {
    (0..8).map(|_| path(folder, chance)).find(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file()))
}

/// Makes one edit in a client's folder; gives what it was.
pub(super) fn edit(folder: &Path, chance: &mut Chance, books: &mut Books, who: usize) -> &'static str {
    let what = chance.below(100);
    match what {
        0..35 => {
            write(&path(folder, chance), &text(chance), books, who);
            "files written"
        }
        35..55 => {
            let Some(path) = file(folder, chance) else { return "nothing to edit" };
            let mut bytes = fs::read(&path).unwrap();
            let more = text(chance);
            let at = if what < 45 { bytes.len() } else { chance.below(bytes.len() + 1) };
            bytes.splice(at..at, more);
            // Files grow by being edited again and again.
            bytes.truncate(200_000);
            write(&path, &bytes, books, who);
            "files edited"
        }
        55..67 => {
            let Some(path) = file(folder, chance) else { return "nothing to delete" };
            books.destroys(&path, who);
            fs::remove_file(path).unwrap();
            "files deleted"
        }
        67..80 => {
            let (Some(from), to) = (file(folder, chance), path(folder, chance)) else { return "nothing to rename" };
            make_room(&to, books, who);
            if from.exists() {
                fs::rename(from, to).unwrap();
            }
            "files renamed"
        }
        80..84 => {
            let (from, to) = (folder.join(chance.one(&FOLDERS[1..])), folder.join(format!("m{}", chance.below(3))));
            if from.is_dir() && !to.exists() {
                fs::rename(from, to).unwrap();
            }
            "folders renamed"
        }
        84..86 => {
            let folder = folder.join(chance.one(&["m0", "m1", "m2", "d/e", "f"]));
            books.destroys(&folder, who);
            let _ = fs::remove_dir_all(folder);
            "folders deleted"
        }
        86..90 => {
            let path = path(folder, chance);
            books.destroys(&path, who);
            remove(&path);
            fs::create_dir_all(path).unwrap();
            "folders made"
        }
        90..94 => {
            let Some(path) = file(folder, chance) else { return "nothing to change" };
            fs::set_permissions(path, fs::Permissions::from_mode(*chance.one(&[0o644, 0o600, 0o755]))).unwrap();
            "modes changed"
        }
        94..97 => {
            let Some(path) = file(folder, chance) else { return "nothing to touch" };
            // Long ago or yet to come: clocks are not to be trusted.
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(chance.next() % 4_000_000_000_000);
            fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
            "times changed"
        }
        _ => {
            let path = path(folder, chance);
            make_room(&path, books, who);
            symlink(chance.one(&NAMES), path).unwrap();
            "links made"
        }
    }
}

fn text(chance: &mut Chance) -> Vec<u8> {
    let lines = if chance.below(12) == 0 { 6000 } else { chance.below(60) + 1 };
    (0..lines).flat_map(|_| format!("{:x}\n", chance.next()).into_bytes()).collect()
}

fn write(path: &Path, bytes: &[u8], books: &mut Books, who: usize) {
    make_room(path, books, who);
    fs::write(path, bytes).unwrap();
    books.wrote(path, bytes, who);
}

/// Nothing is at the path afterwards, and there are folders above it.
fn make_room(path: &Path, books: &mut Books, who: usize) {
    let folder = path.parent().unwrap();
    for above in folder.ancestors().collect::<Vec<_>>().into_iter().rev() {
        if fs::symlink_metadata(above).is_ok_and(|found| !found.is_dir()) {
            books.destroys(above, who);
            remove(above);
        }
    }
    fs::create_dir_all(folder).unwrap();
    books.destroys(path, who);
    remove(path);
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

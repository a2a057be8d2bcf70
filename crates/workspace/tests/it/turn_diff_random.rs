//! Whatever happens in a turn: its diff, applied to what was before, gives what is there now.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::fixture::{Place, apply, copy};

/// A small generator of numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn path(&mut self) -> String {
        let dirs = ["", "src/", "src/deep/", "other dir/"];
        format!("{}f{}.txt", dirs[self.roll(4) as usize], self.roll(8))
    }

    fn text(&mut self) -> String {
        let mut text: String = (0..self.roll(30)).map(|_| format!("line {}\n", self.roll(6))).collect();
        if self.roll(4) == 0 {
            text.push_str("no newline");
        }
        text
    }

    /// Something that an agent or a user might do.
    fn act(&mut self, place: &Place) {
        let path = self.path();
        let exists = place.path(&path).exists();
        match self.roll(10) {
            0..=3 => place.write(&path, self.text()),
            4 if exists => place.write(&path, format!("{}{}", place.read(&path), self.text())),
            5 if exists => place.remove(&path),
            6 | 7 if exists => {
                let to = self.path();
                place.rename(&path, &to);
            }
            8 if exists => place.chmod(&path, if self.roll(2) == 0 { 0o755 } else { 0o644 }),
            9 => {
                let message = format!("commit {}", self.roll(1000));
                if self.roll(3) == 0 {
                    place.commit(&message);
                }
            }
            _ => {}
        }
    }
}

/// Contents and executable bits of all files but git's own.
fn files(root: &Path) -> BTreeMap<String, (bool, String)> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("dir") {
            let entry = entry.expect("entry");
            let path = entry.path();
            if entry.file_name() == ".git" {
                continue;
            }
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let executable = entry.metadata().expect("metadata").permissions().mode() & 0o100 != 0;
            let name = path.strip_prefix(root).expect("below").display().to_string();
            found.insert(name, (executable, fs::read_to_string(&path).expect("text")));
        }
    }
    found
}

#[test]
fn a_diff_is_what_happened() {
    for seed in 0..25 {
        let mut dice = Dice(seed);
        let place = Place::repository();
        for _ in 0..dice.roll(20) {
            dice.act(&place);
        }
        let twin = Place::plain();
        let mut turn = place.before();
        copy(&place.root, &twin.root);
        // Several diffs a turn, as after each edit; only the last one counts.
        for _ in 0..3 {
            for _ in 0..dice.roll(12) {
                dice.act(&place);
            }
            turn.exact();
        }
        let diff = turn.exact();
        if !diff.is_empty() {
            apply(&twin.root, &diff);
        }
        assert_eq!(files(&twin.root), files(&place.root), "seed {seed}\n{diff}");
    }
}

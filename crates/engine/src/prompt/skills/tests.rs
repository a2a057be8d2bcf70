//! Skills on real folders.

use std::os::unix::fs::symlink;

use super::*;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        Self { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let file = self.at(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    fn sources(&self) -> Sources {
        Sources {
            user_home: Some(self.at("user")),
            home: Some(self.at("home")),
            skill_roots: vec![self.at("configured")],
            rule_files: Vec::new(),
        }
    }

    fn skills(&self) -> Skills {
        fs::create_dir_all(self.at("configured")).unwrap();
        skills(&[self.at("project")], &self.sources())
    }
}

fn brief(skills: &Skills) -> Vec<(&str, &str)> {
    skills.skills.iter().map(|skill| (skill.id.as_str(), skill.scope.as_str())).collect()
}

#[test]
fn skills_are_found_everywhere_and_the_nearest_goes_first() {
    let place = Place::new();
    place.write("configured/review/SKILL.md", "configured");
    place.write("home/skills/review/SKILL.md", "home");
    place.write("user/.claude/skills/review/SKILL.md", "user");
    place.write("project/.codex/skills/zeta/SKILL.md", "---\nname: zeta\ndescription: Z.\n---\nDo z.");
    place.write("project/.agents/skills/review/SKILL.md", "# Reviews code\n\nproject");
    place.write("project/.agents/skills/no-skill/README.md", "");
    let found = place.skills();
    assert_eq!(found.errors, []);
    assert_eq!(
        brief(&found),
        [
            ("review", "project"),
            ("zeta", "project"),
            ("review", "user"),
            ("review", "user"),
            ("review", "configured")
        ]
    );
    let skill = found.find("review", None, &[]).unwrap();
    assert_eq!(
        (skill.body.as_str(), skill.description.as_str()),
        ("# Reviews code\n\nproject", "Reviews code")
    );
    assert_eq!(found.find("zeta", None, &[]).unwrap().description, "Z.");
}

#[test]
fn a_path_decides_among_those_of_one_id() {
    let place = Place::new();
    place.write("project/.claude/skills/review/SKILL.md", "project");
    let user = place.write("user/.claude/skills/review/SKILL.md", "user");
    let other = place.write("user/.claude/skills/other/SKILL.md", "other");
    let (found, roots) = (place.skills(), [place.at("project")]);
    let find = |path: &str| found.find("review", Some(path), &roots).map(|skill| skill.body.as_str());
    assert_eq!(find(user.to_str().unwrap()), Ok("user"));
    assert_eq!(find(user.parent().unwrap().to_str().unwrap()), Ok("user"), "its folder will do");
    assert_eq!(find(".claude/skills/review/SKILL.md"), Ok("project"), "relative to the working directory");
    assert_eq!(find(""), Ok("project"));
    assert!(find(other.to_str().unwrap()).unwrap_err().contains("is not the one at"));
    assert!(find("/no/such").unwrap_err().contains("it is not at /no/such"));
}

#[test]
fn a_skill_has_the_name_of_its_front_matter_and_answers_to_its_folder() {
    let place = Place::new();
    place.write("project/.claude/skills/folder/SKILL.md", "---\nname: code-review\nx: y\n---\nBody");
    place.write("project/.claude/skills/spaced/SKILL.md", "---\nname: Two Words\n---\nBody");
    let found = place.skills();
    assert_eq!(brief(&found), [("code-review", "project"), ("spaced", "project")]);
    assert_eq!(found.skills[1].name, "Two Words");
    assert_eq!(found.find("folder", None, &[]).unwrap().id, "code-review");
    assert_eq!(found.find("nope", None, &[]).unwrap_err(), "there is no skill of this name");
}

#[test]
fn a_link_may_lead_to_another_skill_of_its_root_but_not_out_of_it() {
    let place = Place::new();
    place.write("project/.claude/skills/real/SKILL.md", "real");
    let outside = place.write("outside/SKILL.md", "outside");
    let root = place.at("project/.claude/skills");
    symlink("real", root.join("alias")).unwrap();
    symlink(outside.parent().unwrap(), root.join("escape")).unwrap();
    fs::create_dir(root.join("file")).unwrap();
    symlink(&outside, root.join("file/SKILL.md")).unwrap();
    symlink("/no/such", root.join("broken")).unwrap();
    fs::create_dir(root.join("dead")).unwrap();
    symlink("/no/such", root.join("dead/SKILL.md")).unwrap();
    let found = place.skills();
    assert_eq!(brief(&found), [("real", "project")], "one file is one skill, under its real name");
    let errors: Vec<_> = found.errors.iter().map(|error| error.path.strip_prefix(&root).unwrap()).collect();
    assert_eq!(
        errors,
        [Path::new("dead/SKILL.md"), Path::new("file/SKILL.md"), Path::new("escape/SKILL.md")]
    );
    assert!(found.find("escape", None, &[]).unwrap_err().contains("leads out of"));
}

#[test]
fn a_projects_folder_of_skills_may_not_lead_out_of_it_and_a_users_may() {
    let place = Place::new();
    place.write("shared/mine/SKILL.md", "mine");
    for home in ["project", "user"] {
        fs::create_dir_all(place.at(home).join(".claude")).unwrap();
        symlink(place.at("shared"), place.at(home).join(".claude/skills")).unwrap();
    }
    let found = place.skills();
    assert_eq!(brief(&found), [("mine", "user")]);
    assert_eq!(found.errors[0].message, "the folder leads out of its project");
}

#[test]
fn what_cannot_be_used_is_told_and_bounded() {
    let place = Place::new();
    place.write("project/.claude/skills/bad/SKILL.md", "---\nname: [x]\n---\n");
    place.write("project/.claude/skills/big/SKILL.md", &"x".repeat(MAX_BYTES + 1));
    place.write("project/.claude/skills/full/SKILL.md", &"x".repeat(MAX_BYTES));
    let root = place.at("project/.claude/skills");
    fs::create_dir(root.join("latin")).unwrap();
    fs::write(root.join("latin/SKILL.md"), [0xe9]).unwrap();
    fs::create_dir_all(root.join("folder/SKILL.md")).unwrap();
    let found = place.skills();
    assert_eq!(brief(&found), [("full", "project")]);
    let messages: Vec<_> = found.errors.iter().map(|error| error.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`name` in line 2 must be text",
            "it is larger than 64 KiB",
            "it is no regular file",
            "it is not UTF-8 text"
        ]
    );
    assert!(
        found.find("bad", None, &[]).unwrap_err().ends_with("bad/SKILL.md: `name` in line 2 must be text")
    );

    for n in 0..=MAX_SKILLS {
        place.write(&format!("many/s{n:03}/SKILL.md"), "x");
    }
    let sources = Sources { skill_roots: vec![place.at("many"), place.at("gone")], ..Sources::default() };
    let found = skills(&[], &sources);
    assert_eq!((found.skills.len(), found.errors.len()), (MAX_SKILLS, 2));
    assert!(found.errors[0].message.contains("more than 256"));
}

#[test]
fn the_agent_gets_the_text_with_its_values_and_where_the_skill_is() {
    let place = Place::new();
    place.write(
        "project/.claude/skills/fix/SKILL.md",
        "---\nname: fix\n---\nFix {{ issue }} as {{how}} says. {{more}}",
    );
    let found = place.skills();
    let params = BTreeMap::from([
        ("issue".to_owned(), "{{how}}".to_owned()),
        ("how".to_owned(), "H".to_owned()),
        ("who".to_owned(), "me".to_owned()),
    ]);
    let filled = fill(found.find("fix", None, &[]).unwrap(), &params).unwrap();
    let folder = place.at("project/.claude/skills/fix");
    assert_eq!(
        filled.text,
        format!(
            "<skill name=\"fix\" folder=\"{}\">\nFix {{{{how}}}} as H says. {{{{more}}}}\n\nArguments:\n- who: me\n</skill>",
            folder.display()
        )
    );
    assert_eq!(filled.unfilled, ["more"]);
    place.write("project/.claude/skills/none/SKILL.md", "---\nname: none\n---\n");
    let found = place.skills();
    let empty = fill(found.find("none", None, &[]).unwrap(), &BTreeMap::new());
    assert_eq!(empty.unwrap_err(), "its file has no text");
}

//! Git without git: worktrees, baselines, turn diffs.

//! The memory for bodies, where the configuration leaves it to Baler: from the memory limit of the
//! container.

use std::path::Path;

/// The most memory for bodies, bytes.
const MOST: u64 = 512 << 20;
/// Part of a container's memory that bodies may take: around each are buffers, and what planning
/// makes of it.
const SHARE: u64 = 8;

/// Memory for bodies in a container with this limit, bytes.
fn share_of(limit: Option<u64>) -> u64 {
    limit.map_or(MOST, |limit| (limit / SHARE).min(MOST))
}

/// Memory for bodies, bytes.
pub(super) fn for_bodies() -> usize {
    let root = Path::new("/sys/fs/cgroup");
    usize::try_from(share_of(limit_below(root))).unwrap_or(usize::MAX)
}

/// The memory limit that a container sees, bytes: of control groups version 2, else of version 1.
fn limit_below(root: &Path) -> Option<u64> {
    ["memory.max", "memory/memory.limit_in_bytes"]
        .into_iter()
        .find_map(|file| {
            let text = std::fs::read_to_string(root.join(file)).ok()?;
            // "max" where there is none; version 1 then has a number near its largest.
            text.trim().parse::<u64>().ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_the_container_is_found_in_either_version() {
        for (file, content, bytes) in [
            ("memory.max", "671088640\n", 80 << 20),
            ("memory.max", "max\n", MOST),
            ("memory/memory.limit_in_bytes", "134217728\n", 16 << 20),
            (
                "memory/memory.limit_in_bytes",
                "9223372036854771712\n",
                MOST,
            ),
            ("other", "1", MOST),
        ] {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
            assert_eq!(
                share_of(limit_below(root.path())),
                bytes,
                "{file}: {content}"
            );
        }
    }
}

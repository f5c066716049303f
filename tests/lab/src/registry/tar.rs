//! Just enough of the ustar format for image layers: folders, files and links with short names.

const BLOCK: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
}

impl Archive {
    pub(super) fn folder(&mut self, name: &str) {
        self.header(&format!("{name}/"), 0o755, 0, b'5', "");
    }

    pub(super) fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.header(name, mode, content.len(), b'0', "");
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    pub(super) fn link(&mut self, name: &str, target: &str) {
        self.header(name, 0o777, 0, b'2', target);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(&[0; 2 * BLOCK]);
        self.bytes
    }

    fn header(&mut self, name: &str, mode: u32, size: usize, kind: u8, target: &str) {
        let mut header = [0u8; BLOCK];
        let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
        put(0, name.as_bytes());
        put(100, format!("{mode:07o}\0").as_bytes());
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{size:011o}\0").as_bytes());
        put(136, b"00000000000\0");
        put(148, b"        ");
        put(156, &[kind]);
        put(157, target.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|it| u32::from(*it)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend_from_slice(&header);
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_and_the_sum_covers_the_header() {
        let mut archive = Archive::default();
        archive.folder("bin");
        archive.file("bin/tool", 0o755, b"hello");
        archive.link("bin/alias", "tool");
        let bytes = archive.finish();
        assert_eq!(bytes.len(), 4 * BLOCK + 2 * BLOCK);
        let header = &bytes[..BLOCK];
        let blank: u32 = header
            .iter()
            .enumerate()
            .map(|(at, it)| if (148..156).contains(&at) { 32 } else { u32::from(*it) })
            .sum();
        assert_eq!(&header[148..154], format!("{blank:06o}").as_bytes());
    }
}

//! Computes the visual skeleton of a name.
//!
//! Names are ASCII, so a Unicode table is not needed: the pairs are those used for typosquatting,
//! and letters that look alike in common fonts.

/// Returns the skeleton of a name. Names with equal skeletons look alike.
pub(super) fn of(name: &str) -> String {
    let mut skeleton = String::with_capacity(name.len());
    for character in name.chars() {
        match character.to_ascii_lowercase() {
            '-' | '_' | '.' => {}
            '0' => skeleton.push('o'),
            '1' | 'i' | '|' => skeleton.push('l'),
            '5' => skeleton.push('s'),
            '2' => skeleton.push('z'),
            other => skeleton.push(other),
        }
    }
    skeleton.replace("rn", "m").replace("vv", "w").replace("cl", "d")
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn names_that_look_alike_share_a_skeleton() {
        for (one, other) in [
            ("rest-client", "rest_client"),
            ("restclient", "rest-client"),
            ("RedCloth", "redcloth"),
            ("rails", "ralls"),
            ("rails", "rai1s"),
            ("zero", "zer0"),
            ("modern", "modem"),
            ("www", "vvww"),
        ] {
            assert_eq!(of(one), of(other), "{one} {other}");
        }
        assert_ne!(of("rails"), of("rack"));
    }
}

//! User data that refers to bootstrap data by a presigned URL. Pure.

use std::time::Duration;

use capa_api::machine::Ignition;
use capa_cloud::{PresignRequest, PresignedUrl, UserData};
use jiff::Timestamp;

use super::ignition;

/// The user data with a presigned URL, before the URL is signed.
#[derive(Clone, Debug)]
pub(crate) struct Presigning {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) valid_for: Duration,
    pub(crate) ignition: Ignition,
    /// The bootstrap data.
    pub(crate) data: UserData,
}

impl Presigning {
    /// The URL, valid from this second on.
    pub(crate) fn request(&self, valid_from: Timestamp) -> PresignRequest {
        PresignRequest { bucket: self.bucket.clone(), key: self.key.clone(), valid_from, valid_for: self.valid_for }
    }

    /// Whether a URL that is valid from `valid_from` on can be used at `now`.
    pub(crate) fn is_valid(&self, valid_from: Timestamp, now: Timestamp) -> bool {
        let age: Duration = now.duration_since(valid_from).try_into().unwrap_or_default();
        age < self.valid_for
    }

    /// The user data that refers to the bootstrap data by this URL.
    pub(crate) fn user_data(&self, url: &PresignedUrl) -> UserData {
        let sent = ignition::referring_to(&self.ignition, url.expose(), self.data.expose());
        UserData::new(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_presigned_url_takes_the_place_of_the_s3_url() {
        let presigning = Presigning {
            bucket: "boot".to_owned(),
            key: "node/uid-m".to_owned(),
            valid_for: Duration::from_hours(1),
            ignition: Ignition::default(),
            data: UserData::new(b"join-token".to_vec()),
        };
        let from: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let request = presigning.request(from);
        assert_eq!((request.valid_from, request.valid_for), (from, Duration::from_hours(1)));
        let user_data = presigning.user_data(&PresignedUrl::new("https://boot.example/key?a=b"));
        let user_data = String::from_utf8(user_data.expose().to_vec()).unwrap();
        assert!(user_data.contains("\"https://boot.example/key?a=b\""), "{user_data}");
        assert!(!user_data.contains("s3://"), "{user_data}");
        let shown = format!("{presigning:?}");
        assert!(!shown.contains("join-token"), "{shown}");
        for (now, is_valid) in
            [("2025-12-31T23:59:00Z", true), ("2026-01-01T00:59:59Z", true), ("2026-01-01T01:00:00Z", false)]
        {
            assert_eq!(presigning.is_valid(from, now.parse().unwrap()), is_valid, "{now}");
        }
    }
}

//! The share of the published AWS rates that this provider uses.

use std::collections::BTreeMap;
use std::str::FromStr;

use thiserror::Error;

/// A part of AWS's published rates, from 0.001 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    thousandths: u32,
}

impl Share {
    /// The whole of the published rates.
    pub const WHOLE: Self = Self { thousandths: 1000 };

    /// The share in thousandths.
    pub(super) fn thousandths(self) -> u32 {
        self.thousandths
    }
}

/// Half of the published rates. The other half is left to the account's other clients.
impl Default for Share {
    fn default() -> Self {
        Self { thousandths: 500 }
    }
}

/// A text that is not a share.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseShareError {
    /// The text is not a number in the range.
    #[error("{0:?} is no share: write a number from 0.001 to 1, for example 0.5")]
    Number(String),
    /// The text is not an account with its share.
    #[error("{0:?} names no share of an account: write <account id>=<share>, for example 123456789012=0.2")]
    Account(String),
    /// The text names an account twice.
    #[error("account {0} is named twice: name it once")]
    Twice(String),
}

impl FromStr for Share {
    type Err = ParseShareError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseShareError::Number(text.to_owned());
        let number: f64 = text.trim().parse().map_err(|_| refused())?;
        let thousandths = (1..=1000).find(|thousandths| (f64::from(*thousandths) - number * 1000.0).abs() <= 0.5);
        let in_range = (0.001..=1.0).contains(&number);
        thousandths.filter(|_| in_range).map(|thousandths| Self { thousandths }).ok_or_else(refused)
    }
}

/// Shares of accounts by id, as the flag writes them: `123456789012=0.2,210987654321=1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountShares(BTreeMap<String, Share>);

impl FromStr for AccountShares {
    type Err = ParseShareError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut shares = BTreeMap::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let Some((account, share)) = entry.split_once('=') else {
                return Err(ParseShareError::Account(entry.to_owned()));
            };
            let account = account.trim();
            if account.len() != 12 || !account.chars().all(|digit| digit.is_ascii_digit()) {
                return Err(ParseShareError::Account(entry.to_owned()));
            }
            if shares.insert(account.to_owned(), share.parse()?).is_some() {
                return Err(ParseShareError::Twice(account.to_owned()));
            }
        }
        Ok(Self(shares))
    }
}

/// The share of every account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The share of all accounts that [`Self::accounts`] does not contain.
    pub default: Share,
    /// The shares of single accounts.
    pub accounts: AccountShares,
    /// The share of launches and terminations in every account, in place of the others.
    pub launches: Share,
}

/// Half of the published rates, and the whole published rates of launches and terminations.
impl Default for Shares {
    fn default() -> Self {
        Self { default: Share::default(), accounts: AccountShares::default(), launches: Share::WHOLE }
    }
}

impl Shares {
    /// The share of an account; the default one while the account is not known.
    pub fn of(&self, account: Option<&str>) -> Share {
        let given = account.and_then(|account| self.accounts.0.get(account));
        given.copied().unwrap_or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_above_zero_and_at_most_one() {
        for (text, thousandths) in
            [("0.5", 500), ("1", 1000), ("1.0", 1000), ("0.001", 1), (" .25", 250), ("0.333", 333)]
        {
            assert_eq!(text.parse::<Share>(), Ok(Share { thousandths }), "{text}");
        }
        for text in ["0", "-0.5", "1.001", "2", "0.0001", "half", "NaN", "inf", ""] {
            assert_eq!(text.parse::<Share>(), Err(ParseShareError::Number(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn named_accounts_have_their_own_share_others_the_default() {
        let shares = Shares {
            default: "0.5".parse().unwrap(),
            accounts: "123456789012=0.2, 210987654321=1".parse().unwrap(),
            ..Shares::default()
        };
        assert_eq!(shares.of(Some("123456789012")), "0.2".parse().unwrap());
        assert_eq!(shares.of(Some("210987654321")), Share::WHOLE);
        assert_eq!(shares.of(Some("000000000000")), shares.default);
        assert_eq!(shares.of(None), shares.default);
        assert_eq!("".parse(), Ok(AccountShares::default()));
    }

    #[test]
    fn a_malformed_or_repeated_account_is_refused() {
        for text in ["0.2", "1234=0.2", "12345678901x=0.2", "=0.2"] {
            assert_eq!(text.parse::<AccountShares>(), Err(ParseShareError::Account(text.to_owned())));
        }
        assert_eq!("123456789012=2".parse::<AccountShares>(), Err(ParseShareError::Number("2".to_owned())));
        assert_eq!(
            "123456789012=1,123456789012=0.5".parse::<AccountShares>(),
            Err(ParseShareError::Twice("123456789012".to_owned()))
        );
    }
}

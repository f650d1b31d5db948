//! Answers of several pages.

use std::future::Future;

use capa_cloud::CloudError;
use capa_cloud::session::Permit;

/// A page of an answer.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// The token of the next page; absent or empty on the last page.
    pub(crate) next: Option<String>,
}

impl<T> Page<T> {
    /// The only page of an answer.
    pub(crate) fn only(items: impl IntoIterator<Item = T>) -> Self {
        Self { items: items.into_iter().collect(), next: None }
    }
}

/// All pages of an answer, up to a maximum number. `next_permit` returns the permit of each page after the first. A
/// repeated page is an error, because the list would otherwise be incomplete.
pub(crate) async fn all_pages<T, P, F>(
    first: Permit,
    most: usize,
    next_permit: impl Fn() -> P,
    fetch: impl Fn(Permit, Option<String>) -> F,
) -> Result<Vec<T>, CloudError>
where
    P: Future<Output = Result<Permit, CloudError>>,
    F: Future<Output = Result<Page<T>, CloudError>>,
{
    let action = first.action;
    let mut permit = first;
    let mut items = Vec::new();
    let mut token = None;
    for _ in 0..most {
        let page = fetch(permit, token.clone()).await?;
        items.extend(page.items);
        let next = page.next.filter(|next| !next.is_empty());
        if next.is_none() {
            return Ok(items);
        }
        if next == token {
            return Err(CloudError::no_answer(action, "the same page was answered twice"));
        }
        token = next;
        permit = next_permit().await?;
    }
    Err(CloudError::too_many_pages(action, most))
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};

    use capa_cloud::ErrorClass;

    use super::*;

    fn permit() -> Permit {
        Permit::unlimited("DescribeInstances")
    }

    /// The page of this token. There are three pages with one item each. The page `fails_at` gets no answer.
    fn page(token: Option<String>, fails_at: usize) -> Ready<Result<Page<usize>, CloudError>> {
        let page: usize = token.map_or(0, |token| token.parse().unwrap());
        let shown = Page { items: vec![page], next: (page < 2).then(|| (page + 1).to_string()) };
        let missing = || CloudError::no_answer("DescribeInstances", "no answer in time");
        ready((page != fails_at).then_some(shown).ok_or_else(missing))
    }

    /// Reads at most `most` pages. The page with this token fails.
    async fn read(most: usize, fails_at: usize) -> Result<Vec<usize>, CloudError> {
        all_pages(permit(), most, async || Ok(permit()), |_, token| page(token, fails_at)).await
    }

    #[tokio::test]
    async fn all_pages_are_one_answer() {
        assert_eq!(read(3, 9).await, Ok(vec![0, 1, 2]));
    }

    #[tokio::test]
    async fn a_page_that_fails_fails_the_answer() {
        assert!(read(3, 2).await.is_err());
    }

    #[tokio::test]
    async fn an_answer_of_too_many_pages_is_refused() {
        let error = read(2, 9).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Invalid);
        assert!(error.to_string().contains("more than 2 pages"), "{error}");
    }

    #[tokio::test]
    async fn a_page_that_is_answered_again_fails_the_answer() {
        let same = |_, _| {
            let (items, next) = (vec![0], Some("1".to_owned()));
            ready(Ok(Page { items, next }))
        };
        let answer = all_pages(permit(), 9, async || Ok(permit()), same).await;
        assert!(answer.unwrap_err().to_string().contains("answered twice"));
    }

    #[tokio::test]
    async fn a_page_that_gets_no_turn_defers_the_answer() {
        let turn = std::time::Duration::from_secs(60);
        let no_turn = async || Err(CloudError::deferred("DescribeInstances", turn));
        let answer = all_pages(permit(), 3, no_turn, |_, token| page(token, 9)).await;
        assert_eq!(answer.unwrap_err().retry_after, Some(turn));
    }
}

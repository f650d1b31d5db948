//! The public IPv4 pool from which an Elastic IP is allocated. Pure.

use capa_api::common::{ElasticIpPool, ElasticIpPoolFallback};
use capa_api::conditions::Reason;
use capa_network::Problem;

/// The pool of the spec; an empty id counts as absent.
pub(crate) fn named(pool: &ElasticIpPool) -> Option<&str> {
    pool.public_ipv4_pool.as_deref().filter(|id| !id.is_empty())
}

/// The pool to allocate from, which has `free` available addresses. `None`: Amazon's addresses.
///
/// # Errors
/// The pool is exhausted, and the spec allows no other source.
pub(crate) fn to_allocate_from(pool: &ElasticIpPool, free: u32) -> Result<Option<&str>, Problem> {
    let Some(id) = named(pool) else {
        return Ok(None);
    };
    if free > 0 {
        return Ok(Some(id));
    }
    match pool.public_ipv4_pool_fallback_order {
        Some(ElasticIpPoolFallback::AmazonPool) => Ok(None),
        Some(ElasticIpPoolFallback::None) | None => {
            let message = format!(
                "public IPv4 pool {id} has no free address: add addresses to the pool, or set \
                 publicIpv4PoolFallbackOrder to amazon-pool (for machines in a new template)"
            );
            Err(Problem::new(Reason::QuotaExceeded, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    #[test]
    fn an_exhausted_pool_is_left_for_amazons_if_the_spec_says_so() {
        let table = [
            ("{}", 0, Ok(None)),
            ("{publicIpv4Pool: ''}", 0, Ok(None)),
            ("{publicIpv4Pool: ipv4pool-ec2-1, publicIpv4PoolFallbackOrder: none}", 1, Ok(Some("ipv4pool-ec2-1"))),
            (
                "{publicIpv4Pool: ipv4pool-ec2-1, publicIpv4PoolFallbackOrder: amazon-pool}",
                1,
                Ok(Some("ipv4pool-ec2-1")),
            ),
            ("{publicIpv4Pool: ipv4pool-ec2-1, publicIpv4PoolFallbackOrder: amazon-pool}", 0, Ok(None)),
            ("{publicIpv4Pool: ipv4pool-ec2-1, publicIpv4PoolFallbackOrder: none}", 0, Err(Reason::QuotaExceeded)),
            ("{publicIpv4Pool: ipv4pool-ec2-1}", 0, Err(Reason::QuotaExceeded)),
        ];
        for (pool, free, expected) in table {
            let pool: ElasticIpPool = read(pool);
            let used = to_allocate_from(&pool, free).map_err(|problem| problem.reason);
            assert_eq!(used, expected, "{pool:?}");
        }
    }
}

//! A story: one test in the local world, from its beginning to its end.

use std::{future::Future, sync::Arc};

use crate::{environment::TestEnvironment, local_world::LocalWorld};

/// The name of a story, and its world, in which this provider is installed. [`run`](Self::run) creates the environment,
/// runs the body, and finishes the environment.
#[derive(Clone)]
#[must_use = "a story proves nothing until it is run"]
pub struct Story<'a> {
    name: &'a str,
    world_choice: WorldChoice<'a>,
}

#[derive(Clone)]
enum WorldChoice<'a> {
    Shared,
    Given(&'a Arc<LocalWorld>),
    /// A world for this story alone, with these flags for Cluster API core.
    Own(&'a [&'a str]),
}

impl<'a> Story<'a> {
    /// A story in the world that all tests share. The name is the prefix of its namespace.
    pub fn new(name: &'a str) -> Self {
        Self { name, world_choice: WorldChoice::Shared }
    }

    /// The name of the story.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Runs the story in this world, which the caller stops.
    pub fn in_world(self, world: &'a Arc<LocalWorld>) -> Self {
        Self { world_choice: WorldChoice::Given(world), ..self }
    }

    /// Runs the story in a world of its own, with further flags for Cluster API core. The world is stopped at the end.
    pub fn in_its_own_world(self, core_flags: &'a [&'a str]) -> Self {
        Self { world_choice: WorldChoice::Own(core_flags), ..self }
    }

    /// Runs [`run_async`](Self::run_async) from a test that is not async.
    pub fn run(self, body: impl AsyncFnOnce(&Arc<TestEnvironment>) -> anyhow::Result<()>) -> anyhow::Result<()> {
        block_on(self.run_async(body))
    }

    /// Creates the environment, runs the body in it, stops every manager that the body has started, and
    /// [finishes](TestEnvironment::finish) the environment. Every manager must end with success. When the body fails or
    /// panics, the environment is dropped unfinished: it keeps its evidence in a folder and prints the folder's name.
    pub async fn run_async(
        self,
        body: impl AsyncFnOnce(&Arc<TestEnvironment>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let world = match self.world_choice {
            WorldChoice::Shared => LocalWorld::shared().await?,
            WorldChoice::Given(world) => world.clone(),
            WorldChoice::Own(flags) => {
                let world = LocalWorld::start_with(flags).await?;
                world.install_provider().await?;
                Arc::new(world)
            }
        };
        let environment = Arc::new(TestEnvironment::new(world.clone(), self.name).await?);
        body(&environment).await?;
        environment.finish().await?;
        match self.world_choice {
            WorldChoice::Own(_) => world.stop().await,
            WorldChoice::Shared | WorldChoice::Given(_) => Ok(()),
        }
    }
}

/// Runs a future to its end on a runtime of its own, as `#[tokio::test]` does.
pub fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(future)
}

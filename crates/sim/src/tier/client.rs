//! A client: transactions of one kind or another, until the end.

use super::World;
use super::check::{End, Operation};
use super::front::Front;
use super::node::{Failure, Work};
use super::writer::LISTS;
use crate::executor::once;
use std::rc::Rc;

/// Runs operations until the time is over, and one more when everything is at rest.
pub(crate) async fn behave(world: Rc<World>) {
    let env = world.env.clone();
    while env.now() < world.until {
        operate(&world).await;
        let pause = env.random.borrow_mut().between(1, world.think);
        env.executor.sleep(pause).await;
    }
    loop {
        env.executor.sleep(world.think).await;
        if operate(&world).await {
            return world.leaves();
        }
    }
}

/// One operation. True: it was an acknowledged write.
async fn operate(world: &Rc<World>) -> bool {
    let Some(front) = world.front.borrow().clone() else { return false };
    let (kind, list, item) = {
        let mut random = world.env.random.borrow_mut();
        (
            random.below(10),
            u32::try_from(random.below(u64::from(LISTS))).expect("few lists"),
            world.env.fresh(),
        )
    };
    let place = world.record.borrow().len();
    world.record.borrow_mut().push(Operation { begun: world.moment(), ..Operation::default() });
    let (give, take) = once(&world.env.executor);
    let (front_of_session, record) = (front.clone(), world.clone());
    front.spawn(async move {
        give.give(run(&record, &front_of_session, place, (kind, list, item)).await);
    });
    let end = take.take().await.unwrap_or(End::Unknown);
    let mut record = world.record.borrow_mut();
    record[place].end = match end {
        End::Done { version, .. } => End::Done { version, moment: world.moment() },
        end => end,
    };
    record[place].append.is_some() && matches!(end, End::Done { .. })
}

async fn run(world: &World, front: &Front, place: usize, (kind, list, item): (u64, u32, u32)) -> End {
    let note = |operation: &dyn Fn(&mut Operation)| operation(&mut world.record.borrow_mut()[place]);
    let work = match kind {
        0..4 => {
            let Some((lists, version)) = front.read().await else { return End::Refused };
            note(&|operation| operation.lists = Some(lists.clone()));
            return End::Done { version, moment: 0 };
        }
        4 => Work::Read,
        5..7 => {
            let Some((lists, _)) = front.read().await else { return End::Refused };
            note(&|operation| operation.append = Some((list, item, true)));
            Work::AppendIf(list, item, lists)
        }
        _ => {
            note(&|operation| operation.append = Some((list, item, kind == 7)));
            Work::Append(list, item, kind == 7)
        }
    };
    let is_conditional = matches!(work, Work::AppendIf(..));
    match front.write(work).await {
        Ok((Some(lists), version)) => {
            note(&|operation| {
                operation.lists = (operation.append.is_none() || is_conditional).then(|| lists.clone())
            });
            End::Done { version, moment: 0 }
        }
        Ok((None, _)) | Err(Failure::Elsewhere) => End::Refused,
        Err(Failure::Unknown) => End::Unknown,
    }
}

//! By which of the shown columns an answer is sorted.

use crate::server::Server;

#[test]
fn an_order_is_known_as_far_as_it_is_shown() {
    let server = Server::start();
    crate::block_on(async {
        let mut analyst = server.connect("postgres").await;
        analyst.run("CREATE TABLE t (a int, b int, c text)").await;
        let catalog = crate::catalog(&mut analyst).await;
        analyst.listen().await;
        for (statement, order) in [
            ("SELECT a, b FROM t", &[][..]),
            ("SELECT a, b FROM t ORDER BY b", &[1]),
            ("SELECT a, b, c FROM t ORDER BY 3, a DESC", &[2, 0]),
            ("SELECT a FROM t ORDER BY a, b", &[0]),
            ("SELECT a FROM t ORDER BY b, a", &[]),
            ("SELECT DISTINCT b, a FROM t ORDER BY a", &[1]),
            ("SELECT a FROM t UNION ALL SELECT b FROM t ORDER BY 1", &[0]),
            ("SELECT * FROM (SELECT a FROM t ORDER BY a) s", &[]),
            ("VALUES (1, 2), (3, 4) ORDER BY 2", &[1]),
        ] {
            let (template, _) = crate::judged(statement, &mut analyst, &catalog).await.unwrap();
            assert_eq!(template.results.order, order, "{statement}");
        }
    });
}

-- A destination as version 2 wrote it: two scans of payout requests, and one of invoices that was interrupted after two pages.
CREATE TABLE destination (only INTEGER PRIMARY KEY CHECK (only = 1), source TEXT NOT NULL) STRICT;
CREATE TABLE holders (label TEXT PRIMARY KEY, holder TEXT NOT NULL) STRICT;
CREATE TABLE scans (
    scan INTEGER PRIMARY KEY AUTOINCREMENT, list TEXT NOT NULL, part TEXT NOT NULL, asked TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'incomplete', 'abandoned')),
    checkpoint TEXT, first_row INTEGER NOT NULL, pages INTEGER NOT NULL DEFAULT 0, records INTEGER NOT NULL DEFAULT 0,
    tally TEXT NOT NULL, certificate TEXT, started_at TEXT NOT NULL, ended_at TEXT
  ) STRICT;
CREATE UNIQUE INDEX one_running_scan ON scans (list, part) WHERE state = 'running';
CREATE INDEX scans_of_a_part ON scans (list, part, state, scan);
CREATE TABLE seen (scan INTEGER NOT NULL, piece INTEGER NOT NULL, bits BLOB NOT NULL, PRIMARY KEY (scan, piece)) STRICT;
CREATE TABLE quarantine (
    scan INTEGER NOT NULL, list TEXT NOT NULL, id TEXT, path TEXT NOT NULL, expected TEXT NOT NULL, raw TEXT NOT NULL
  ) STRICT;
CREATE INDEX quarantine_of_a_scan ON quarantine (scan);
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, list TEXT NOT NULL, scan INTEGER NOT NULL, at TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('insert', 'update', 'missing', 'returned')),
    id TEXT NOT NULL, fields TEXT NOT NULL, before TEXT, after TEXT
  ) STRICT;
CREATE INDEX changes_of_a_record ON changes (list, id, seq);
CREATE TABLE revisions (list TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT;
CREATE TABLE payout_requests (
      row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, reference TEXT, customer_id TEXT, customer_details_reference TEXT, customer_details_name TEXT, customer_details_document_type TEXT, customer_details_document_number TEXT, customer_details_email TEXT, customer_details_phone_number TEXT, payout_target_id TEXT, payout_target_details_reference TEXT, payout_target_details_description TEXT, payout_target_details_type TEXT, status TEXT, status_message TEXT, amount INTEGER, amount_sent INTEGER, fee INTEGER, source_merchant_account_id TEXT, created_at TEXT, updated_at TEXT, raw TEXT NOT NULL, hash TEXT NOT NULL, first_seen_at TEXT NOT NULL,
      changed_at TEXT NOT NULL, missing_since TEXT
    ) STRICT;
CREATE INDEX missing_payout_requests ON payout_requests (row) WHERE missing_since IS NOT NULL;
CREATE VIEW payout_requests_seen AS SELECT t.*, max(t.changed_at, coalesce((
      SELECT max(coalesce(scans.ended_at, scans.started_at)) FROM scans JOIN seen ON seen.scan = scans.scan
      WHERE scans.list = 'payout-requests' AND seen.piece = t.row / 8192 AND (instr('123456789ABCDEF', substr(hex(substr(seen.bits, t.row % 8192 / 8 + 1, 1)), 2 - t.row % 8 / 4, 1)) >> (t.row % 4)) & 1
    ), t.changed_at)) AS last_seen_at FROM payout_requests AS t;
CREATE TABLE payin_sources (
      row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, reference TEXT, description TEXT, customer_id TEXT, customer_details_reference TEXT, customer_details_name TEXT, customer_details_document_type TEXT, customer_details_document_number TEXT, customer_details_email TEXT, customer_details_phone_number TEXT, status TEXT, status_message TEXT, auth_url TEXT, redirect_url TEXT, partial_payins_enabled INTEGER, type TEXT, created_at TEXT, updated_at TEXT, raw TEXT NOT NULL, hash TEXT NOT NULL, first_seen_at TEXT NOT NULL,
      changed_at TEXT NOT NULL, missing_since TEXT
    ) STRICT;
CREATE INDEX missing_payin_sources ON payin_sources (row) WHERE missing_since IS NOT NULL;
CREATE VIEW payin_sources_seen AS SELECT t.*, max(t.changed_at, coalesce((
      SELECT max(coalesce(scans.ended_at, scans.started_at)) FROM scans JOIN seen ON seen.scan = scans.scan
      WHERE scans.list = 'payin-sources' AND seen.piece = t.row / 8192 AND (instr('123456789ABCDEF', substr(hex(substr(seen.bits, t.row % 8192 / 8 + 1, 1)), 2 - t.row % 8 / 4, 1)) >> (t.row % 4)) & 1
    ), t.changed_at)) AS last_seen_at FROM payin_sources AS t;
CREATE TABLE invoices (
      row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, reference TEXT, status TEXT, amount INTEGER, description TEXT, contract TEXT, customer_document_number TEXT, created_at TEXT, payment_date TEXT, payment_method TEXT, payment_source TEXT, payment_amount INTEGER, settlement_date TEXT, settlement_time TEXT, payment_id TEXT, payment_url TEXT, raw TEXT NOT NULL, hash TEXT NOT NULL, first_seen_at TEXT NOT NULL,
      changed_at TEXT NOT NULL, missing_since TEXT
    ) STRICT;
CREATE INDEX missing_invoices ON invoices (row) WHERE missing_since IS NOT NULL;
CREATE VIEW invoices_seen AS SELECT t.*, max(t.changed_at, coalesce((
      SELECT max(coalesce(scans.ended_at, scans.started_at)) FROM scans JOIN seen ON seen.scan = scans.scan
      WHERE scans.list = 'invoices' AND seen.piece = t.row / 8192 AND (instr('123456789ABCDEF', substr(hex(substr(seen.bits, t.row % 8192 / 8 + 1, 1)), 2 - t.row % 8 / 4, 1)) >> (t.row % 4)) & 1
    ), t.changed_at)) AS last_seen_at FROM invoices AS t;
CREATE TABLE rendered (
    file TEXT PRIMARY KEY, list TEXT NOT NULL, rendering INTEGER NOT NULL, scan INTEGER NOT NULL, revision INTEGER,
    records INTEGER, bytes INTEGER, sha256 TEXT
  ) STRICT;
CREATE TABLE manifest (only INTEGER PRIMARY KEY CHECK (only = 1), text TEXT NOT NULL, previous TEXT) STRICT;
INSERT INTO destination (only, source) VALUES (1, 'memory');
INSERT INTO holders (label, holder) VALUES ('payout-requests', 'process 17472 on host since 2026-11-22T07:55:12.068Z');
INSERT INTO holders (label, holder) VALUES ('invoices', 'process 17472 on host since 2026-11-22T07:55:12.160Z');
INSERT INTO scans (scan, list, part, asked, state, first_row, pages, records, tally, certificate, started_at, ended_at) VALUES (1, 'payout-requests', '', '[10,[],[]]', 'complete', 0, 2, 12, '{"counts":{"pages":2,"records":12,"repeats":0,"inserted":12,"updated":0,"unchanged":0,"returned":0,"quarantined":1,"nameless":0},"sums":{"amount":"55","amount_sent":"0","fee":"0"},"digest":"268956245154154362419903077078824917630","undocumented":{},"replaced":0,"blind":false}', '{"scan":1,"startedAt":"2026-11-22T07:55:11.875Z","completedAt":"2026-11-22T07:55:11.980Z","end":"null cursor","pages":2,"records":12,"distinct":12,"repeats":0,"quarantined":1,"nameless":0,"sums":{"amount":"55","amount_sent":"0","fee":"0"},"digest":"ca5716b0463fafcec379bc86f9141a7e"}', '2026-11-22T07:55:11.875Z', '2026-11-22T07:55:11.980Z');
INSERT INTO scans (scan, list, part, asked, state, first_row, pages, records, tally, certificate, started_at, ended_at) VALUES (2, 'payout-requests', '', '[10,[],[]]', 'complete', 12, 2, 12, '{"counts":{"pages":2,"records":12,"repeats":0,"inserted":0,"updated":1,"unchanged":11,"returned":0,"quarantined":1,"nameless":0},"sums":{"amount":"95","amount_sent":"0","fee":"0"},"digest":"235252333429151639680496654720654874099","undocumented":{},"replaced":0,"blind":false}', '{"scan":2,"startedAt":"2026-11-22T07:55:12.080Z","completedAt":"2026-11-22T07:55:12.089Z","end":"null cursor","pages":2,"records":12,"distinct":12,"repeats":0,"quarantined":1,"nameless":0,"sums":{"amount":"95","amount_sent":"0","fee":"0"},"digest":"b0fbf38b44b6c34e786e68699aa795f3"}', '2026-11-22T07:55:12.080Z', '2026-11-22T07:55:12.089Z');
INSERT INTO scans (scan, list, part, asked, state, checkpoint, first_row, pages, records, tally, started_at) VALUES (3, 'invoices', '', '[10,[["contract","contract"],["cursor","cursor"],["customerDocumentNumber","customerDocumentNumber"],["limit","limit"],["paymentDate","paymentDate"],["reference","reference"],["settlementDate","settlementDate"],["settlementTime","settlementTime"]],[]]', 'running', '{"list":"invoices","cursor":"WzI0MjU0NjA5LDIwLDNd","limit":10,"filters":{}}', 0, 2, 20, '{"counts":{"pages":2,"records":20,"repeats":0,"inserted":20,"updated":0,"unchanged":0,"returned":0,"quarantined":0,"nameless":0},"sums":{"amount":"190","payment_amount":"0"},"digest":"69898285683424972833220587979812469160","undocumented":{"extra":20},"replaced":0,"blind":false}', '2026-11-22T07:55:12.172Z');
INSERT INTO seen (scan, piece, bits) VALUES (2, 0, x'ff0f');
INSERT INTO seen (scan, piece, bits) VALUES (3, 0, x'ffff0f');
INSERT INTO quarantine (scan, list, id, path, expected, raw) VALUES (2, 'payout-requests', 'por_bad', 'amount', 'expected number | null', '{"id":"por_bad","amount":"12"}');
INSERT INTO changes (seq, list, scan, at, kind, id, fields, before, after) VALUES (1, 'payout-requests', 2, '2026-11-22T07:55:12.087Z', 'update', 'por_4', '["amount"]', '{"id":"por_4","amount":4,"customerDetails":{"name":"n4"}}', '{"id":"por_4","amount":44,"customerDetails":{"name":"n4"}}');
INSERT INTO revisions (list, revision) VALUES ('payout-requests', 3);
INSERT INTO revisions (list, revision) VALUES ('invoices', 2);
INSERT INTO payout_requests (row, id, customer_details_name, amount, raw, hash, first_seen_at, changed_at) VALUES (0, 'por_0', 'n0', 0, '{"id":"por_0","amount":0,"customerDetails":{"name":"n0"}}', '2fce23881933db3988a3da345ce082a1d5a9a7cfd24f2c8e09ea66170e6a886e', '2026-11-22T07:55:11.975Z', '2026-11-22T07:55:11.975Z');
INSERT INTO payout_requests (row, id, customer_details_name, amount, raw, hash, first_seen_at, changed_at) VALUES (1, 'por_1', 'n1', 1, '{"id":"por_1","amount":1,"customerDetails":{"name":"n1"}}', 'b86b42ba6c491c48c28b543c12d6efe332619229d696a5290fb6f66dee51c1ea', '2026-11-22T07:55:11.975Z', '2026-11-22T07:55:11.975Z');
INSERT INTO payout_requests (row, id, customer_details_name, amount, raw, hash, first_seen_at, changed_at) VALUES (2, 'por_2', 'n2', 2, '{"id":"por_2","amount":2,"customerDetails":{"name":"n2"}}', '074b7aa9a26ea89b98ffbfb0ecdfb4265f1bcf750f5791ec77d98f6b29513d05', '2026-11-22T07:55:11.975Z', '2026-11-22T07:55:11.975Z');
INSERT INTO payout_requests (row, id, customer_details_name, amount, raw, hash, first_seen_at, changed_at) VALUES (3, 'por_3', 'n3', 3, '{"id":"por_3","amount":3,"customerDetails":{"name":"n3"}}', '67f1776af602f6fc0189931ca7384b8130f85cb2186b683b25884bc0ab976435', '2026-11-22T07:55:11.975Z', '2026-11-22T07:55:11.975Z');
INSERT INTO payout_requests (row, id, customer_details_name, amount, raw, hash, first_seen_at, changed_at) VALUES (4, 'por_4', 'n4', 44, '{"id":"por_4","amount":44,"customerDetails":{"name":"n4"}}', '13c780cb27dd92fcc6853ac59cb7259ae0589156a1d4040fdb62a9162a4b922b', '2026-11-22T07:55:11.975Z', '2026-11-22T07:55:12.087Z');
INSERT INTO payout_requests (row, id, customer_details_name, amount, raw, hash, first_seen_at, changed_at) VALUES (5, 'por_5', 'n5', 5, '{"id":"por_5","amount":5,"customerDetails":{"name":"n5"}}', '953318151fbe410cab8e02165ddd463b0aa60d5b17a3cb21d49e20d7be3bc706', '2026-11-22T07:55:11.975Z', '2026-11-22T07:55:11.975Z');
INSERT INTO payout_requests (row, id, customer_details_name, amount, raw, hash, first_seen_at, changed_at) VALUES (6, 'por_6', 'n6', 6, '{"id":"por_6","amount":6,"customerDetails":{"name":"n6"}}', '7e42211c014d0816d0aca948350bff08a44745f7ac4a85f84e4f34de0db9eae0', '2026-11-22T07:55:11.975Z', '2026-11-22T07:55:11.975Z');
INSERT INTO payout_requests (row, id, customer_details_name, amount, raw, hash, first_seen_at, changed_at) VALUES (7, 'por_7', 'n7', 7, '{"id":"por_7","amount":7,"customerDetails":{"name":"n7"}}', 'a13ab92462a4689200eb3976edb0e155ff1d06ce77122880601ab98821500353', '2026-11-22T07:55:11.975Z', '2026-11-22T07:55:11.975Z');
INSERT INTO payout_requests (row, id, customer_details_name, amount, raw, hash, first_seen_at, changed_at) VALUES (8, 'por_8', 'n8', 8, '{"id":"por_8","amount":8,"customerDetails":{"name":"n8"}}', '2d2942d0cc184479ebc81a93697fce7341268e22390b563ff6a933214e75dbe2', '2026-11-22T07:55:11.975Z', '2026-11-22T07:55:11.975Z');
INSERT INTO payout_requests (row, id, customer_details_name, amount, raw, hash, first_seen_at, changed_at) VALUES (9, 'por_9', 'n9', 9, '{"id":"por_9","amount":9,"customerDetails":{"name":"n9"}}', 'e00ac8b8a2906cd545df8dfd0bc399cf5e2a95ad3b2c0aeab4e941a72716ab94', '2026-11-22T07:55:11.975Z', '2026-11-22T07:55:11.975Z');
INSERT INTO payout_requests (row, id, customer_details_name, amount, raw, hash, first_seen_at, changed_at) VALUES (10, 'por_10', 'n10', 10, '{"id":"por_10","amount":10,"customerDetails":{"name":"n10"}}', '2300ed3491fccaf6383c8473b450ae2d2d9a739913d972dd7f2ab826df5dc48e', '2026-11-22T07:55:11.980Z', '2026-11-22T07:55:11.980Z');
INSERT INTO payout_requests (row, id, raw, hash, first_seen_at, changed_at) VALUES (11, 'por_bad', '{"id":"por_bad","amount":"12"}', '60d92f557a956b3ce5269a8c4ff2c127d2ea236ea96222cb2af3735d4d9a9334', '2026-11-22T07:55:11.980Z', '2026-11-22T07:55:11.980Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (0, 'inv_0', 0, 'c', '{"id":"inv_0","amount":0,"contract":"c","extra":1.10}', 'f04e097d2c3d38f6d4dee09b77fb1602ad985c7b3f87b2e030e55ee3d8ea3214', '2026-11-22T07:55:12.201Z', '2026-11-22T07:55:12.201Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (1, 'inv_1', 1, 'c', '{"id":"inv_1","amount":1,"contract":"c","extra":1.10}', '0714cb36357c5961dfd00a787259a3bad9113f9618709e6acce4ac6ee233edc2', '2026-11-22T07:55:12.201Z', '2026-11-22T07:55:12.201Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (2, 'inv_2', 2, 'c', '{"id":"inv_2","amount":2,"contract":"c","extra":1.10}', '54abc0ac75d29b27d31f29bbc6a53e1e35d0e06c89d1d94e9703592c94cecca1', '2026-11-22T07:55:12.201Z', '2026-11-22T07:55:12.201Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (3, 'inv_3', 3, 'c', '{"id":"inv_3","amount":3,"contract":"c","extra":1.10}', '6c00c6de8d9a335e3ee709eca273027337a264d8e1474d02329ba6750d4f84e2', '2026-11-22T07:55:12.201Z', '2026-11-22T07:55:12.201Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (4, 'inv_4', 4, 'c', '{"id":"inv_4","amount":4,"contract":"c","extra":1.10}', '6bef0c535d917ea7ff3c5baaae7661ea578f272dc44c2aa39eabd29e0b2b929f', '2026-11-22T07:55:12.201Z', '2026-11-22T07:55:12.201Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (5, 'inv_5', 5, 'c', '{"id":"inv_5","amount":5,"contract":"c","extra":1.10}', 'a22292a7ad6ee7d83e25dc2dac1fcb55d22d69f0eabff7765a7307ced49147bf', '2026-11-22T07:55:12.201Z', '2026-11-22T07:55:12.201Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (6, 'inv_6', 6, 'c', '{"id":"inv_6","amount":6,"contract":"c","extra":1.10}', 'f1c9236079637eef843346598088d4db0d7cf938f284575ddcb972fbbec3bdfa', '2026-11-22T07:55:12.201Z', '2026-11-22T07:55:12.201Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (7, 'inv_7', 7, 'c', '{"id":"inv_7","amount":7,"contract":"c","extra":1.10}', 'acfbc6a104780cf61d305bf3f6f511a204696e62f6513cfb0c156057474a2a1e', '2026-11-22T07:55:12.201Z', '2026-11-22T07:55:12.201Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (8, 'inv_8', 8, 'c', '{"id":"inv_8","amount":8,"contract":"c","extra":1.10}', '22363d49161b7a0681045f1877b6aa8bde5e48cefc21bcd06b19246753582cfc', '2026-11-22T07:55:12.201Z', '2026-11-22T07:55:12.201Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (9, 'inv_9', 9, 'c', '{"id":"inv_9","amount":9,"contract":"c","extra":1.10}', '4c7e1ce0c9c392b69d10d5186098a0f8189d094c457258e6dc6bf96c41ab3e05', '2026-11-22T07:55:12.201Z', '2026-11-22T07:55:12.201Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (10, 'inv_10', 10, 'c', '{"id":"inv_10","amount":10,"contract":"c","extra":1.10}', '8b546608dd44f382e75af0a3bdd7b481a490e102be6f2e02177519422171c712', '2026-11-22T07:55:12.208Z', '2026-11-22T07:55:12.208Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (11, 'inv_11', 11, 'c', '{"id":"inv_11","amount":11,"contract":"c","extra":1.10}', '6421b9d3ea8086b9bb4db1c2520609002104f222b79b42a7092da90e224aeef6', '2026-11-22T07:55:12.208Z', '2026-11-22T07:55:12.208Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (12, 'inv_12', 12, 'c', '{"id":"inv_12","amount":12,"contract":"c","extra":1.10}', '635d1a6e3408ed7efa64baab44cce4b7c07fa614a04ddaa20b3d8913f1fcb1dd', '2026-11-22T07:55:12.208Z', '2026-11-22T07:55:12.208Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (13, 'inv_13', 13, 'c', '{"id":"inv_13","amount":13,"contract":"c","extra":1.10}', 'bd6da950679534391425bee995402f03b289ce4a8841c2975766926230121a27', '2026-11-22T07:55:12.208Z', '2026-11-22T07:55:12.208Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (14, 'inv_14', 14, 'c', '{"id":"inv_14","amount":14,"contract":"c","extra":1.10}', 'a5657b3945e9e02bfef47bf089aa0034e8dc5139d92ffe2344babd2231af7121', '2026-11-22T07:55:12.208Z', '2026-11-22T07:55:12.208Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (15, 'inv_15', 15, 'c', '{"id":"inv_15","amount":15,"contract":"c","extra":1.10}', '292dfc81615456ff56ec190e3a1eae5027ec2a40e17df886645e0e8e177fa00e', '2026-11-22T07:55:12.208Z', '2026-11-22T07:55:12.208Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (16, 'inv_16', 16, 'c', '{"id":"inv_16","amount":16,"contract":"c","extra":1.10}', '2de902052b2e9058105afef863b80c9b0d68062b68e97ed1238c08924bebb1a0', '2026-11-22T07:55:12.208Z', '2026-11-22T07:55:12.208Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (17, 'inv_17', 17, 'c', '{"id":"inv_17","amount":17,"contract":"c","extra":1.10}', '9c447656090c76302ad18c1695afaa3575c45f87df7b399c888250bd180ff3f9', '2026-11-22T07:55:12.208Z', '2026-11-22T07:55:12.208Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (18, 'inv_18', 18, 'c', '{"id":"inv_18","amount":18,"contract":"c","extra":1.10}', '055f75bea05e971ef271ad51b75941f2b3c1c03a8c484e38e2fb8c1dcb7373d7', '2026-11-22T07:55:12.208Z', '2026-11-22T07:55:12.208Z');
INSERT INTO invoices (row, id, amount, contract, raw, hash, first_seen_at, changed_at) VALUES (19, 'inv_19', 19, 'c', '{"id":"inv_19","amount":19,"contract":"c","extra":1.10}', 'b29a62ba01792d99b6598547ca10a79bbe5d26120bc1f268325258589c01c448', '2026-11-22T07:55:12.208Z', '2026-11-22T07:55:12.208Z');
PRAGMA application_id = 0x50415952;
PRAGMA user_version = 2;
PRAGMA journal_mode = WAL;

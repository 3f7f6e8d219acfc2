/** What the page says about the state of sources. */
import { assert, describe, it } from "@effect/vitest"
import { durationWords, grouped } from "@payments/program"
import { listDetails, sourceDetails } from "../../src/page/Details.ts"
import { freshness, handoffVerdict, listFindings, sourceFindings, summary } from "../../src/page/Diagnosis.ts"
import type { HandoffState, ListSnapshot } from "../../src/state/StatusSnapshot.ts"
import { at, handoff, list, snapshots, source } from "./Snapshots.ts"

const failure = { kind: "full", reason: "Unauthorized", message: "invoices: not authorized (401)", since: at } as const
const unscanned: Partial<ListSnapshot> = { ageSeconds: null, completeScan: null, isFresh: false }

const { completeScan } = list("invoices", 9500, 60)
const heldBack = completeScan?.certificate
  ? { ...completeScan, certificate: { ...completeScan.certificate, heldBack: 500 } }
  : null

/** Open records, the oldest of which was created 80 days ago. */
const opened = {
  openRecords: {
    finalStates: { states: ["sent", "o'k"], from: "configured" },
    statuses: [
      { status: "stuck & <b>", records: 2, undated: 0, oldestAt: "2026-09-03T14:05:09.120Z" },
      { status: null, records: 1, undated: 0, oldestAt: "2026-11-19T14:05:09.120Z" },
      { status: "young", records: 1, undated: 0, oldestAt: "2026-11-22T14:00:00.000Z" }
    ],
    lacking: []
  },
  open: [
    { status: "stuck & <b>", seconds: 80 * 86_400, undated: 0 },
    { status: null, seconds: 3 * 86_400, undated: 0 },
    { status: "young", seconds: 309, undated: 0 }
  ]
} as const

const texts = (given: ListSnapshot) =>
  listFindings(given, at).map(({ sentence, tone }) => `${tone}: ${sentence.markup.replaceAll(/<[^>]+>/g, "")}`)

describe("a list", () => {
  it.each<[string, Partial<ListSnapshot>, string, ReadonlyArray<string>]>([
    ["is fresh", {}, "good Fresh", []],
    ["has no limit", { maxAgeSeconds: null }, "idle No limit", []],
    ["has never been scanned", unscanned, "idle Never scanned", []],
    [
      "has no limit, and its first scan failed",
      { ...unscanned, maxAgeSeconds: null, isFresh: true, failure },
      "bad Never scanned",
      [
        "bad: The last full scan failed: not authorized (401). Since 14:05:09 UTC, under 5 s ago."
      ]
    ],
    ["failed, but is fresh", { failure: { ...failure, kind: "head" } }, "good Fresh", [
      "warn: The last head pass failed: not authorized (401). Since 14:05:09 UTC, under 5 s ago."
    ]],
    [
      "held rows back",
      { failure: { ...failure, reason: "HeldBack", message: "9 rows would be missing at once." } },
      "good Fresh",
      [
        "warn: The last full scan held rows back: 9 rows would be missing at once. Since 14:05:09 UTC, under 5 s ago."
      ]
    ],
    [
      "held rows back before the worker started",
      { completeScan: heldBack },
      "good Fresh",
      [
        "warn: The last full scan returned 9,500 of 10,000 rows; the others were held back: they have no missing mark, because they are too many at once."
      ]
    ],
    [
      "held rows back just now",
      { completeScan: heldBack, failure: { ...failure, reason: "HeldBack", message: "500 rows would be missing." } },
      "good Fresh",
      [
        "warn: The last full scan returned 9,500 of 10,000 rows; the others were held back: they have no missing mark, because they are too many at once."
      ]
    ],
    ["has a scan from the future", { ageSeconds: null, isFresh: false }, "bad Age unknown", [
      "bad: The age is unknown until the next full scan: a clock was set back."
    ]],
    ["has records that have been open for too long", { ...opened, maxOpenSeconds: 172_800 }, "good Fresh", [
      "warn: A record has been open for 80 d (stuck &amp; &lt;b&gt; and 1 other status). At most 2 d is allowed."
    ]],
    ["has open records, but not for too long", { ...opened, maxOpenSeconds: 81 * 86_400 }, "good Fresh", []],
    ["has open records and no limit", opened, "good Fresh", []],
    [
      "has an open record without a date",
      {
        ...opened,
        maxOpenSeconds: 81 * 86_400,
        openRecords: {
          ...opened.openRecords,
          statuses: [{ status: "stuck", records: 2, undated: 1, oldestAt: undefined }]
        }
      },
      "good Fresh",
      ["warn: Nobody knows how long 1 open record without a date of creation has been open."]
    ],
    [
      "has open records, and nobody knows which states are final",
      {
        ...opened,
        maxOpenSeconds: 60,
        openRecords: { ...opened.openRecords, finalStates: { states: [], from: "unknown" } }
      },
      "good Fresh",
      [
        "warn: A record has been open for 80 d (stuck &amp; &lt;b&gt; and 2 other statuses). At most 1 min is allowed. No final status is known, so every record counts as open."
      ]
    ],
    [
      "has records without the date that the copy leaves out",
      { ...opened, maxOpenSeconds: 60, openRecords: { ...opened.openRecords, lacking: ["createdAt"] } },
      "good Fresh",
      ["warn: The copy leaves out or replaces createdAt, so nobody knows how long records are open."]
    ],
    ["has an order that is not the promised one", { headProblem: "2 records stood behind" }, "good Fresh", [
      "warn: Head passes are stopped: 2 records stood behind."
    ]]
  ])("that %s", (_, change, verdict, findings) => {
    const given = list("invoices", 10, 60, change)
    const { tone, word } = freshness(given)
    assert.deepStrictEqual([`${tone} ${word}`, texts(given)], [verdict, findings])
  })
})

it("links records that have been open for too long to the command that prints them", () => {
  const late = list("payout-requests", 10, 60, { ...opened, maxOpenSeconds: 172_800 })
  const [finding] = listFindings(late, at, "acme")
  assert.include(finding?.sentence.markup, `href="/?source=acme#details:acme/payout-requests"`)
  const details = listDetails(source("acme"), late, false, at).markup
  assert.include(details, `id="details:acme/payout-requests"`)
  assert.include(details, "4 records")
  assert.include(details, "80 d, <bdi>stuck &amp; &lt;b&gt;</bdi>")
  assert.include(details, "payout-requests: final, by the setting final_states: sent, o&#39;k.")
  assert.include(details, "payments query --from sqlite:/var/lib/payments/acme.db")
  assert.include(details, "status NOT IN (")
  assert.notInclude(listDetails(source("acme"), list("invoices", 10, 60), false, at).markup, "Open records")
})

describe("the summary", () => {
  const problem = { reason: "Unavailable", message: "the server could not be reached", since: at }
  it.each(
    [
      ["good", "All 3 lists are fresh", "", [source("a")]],
      ["idle", "No source is set up", "", []],
      ["idle", "This runner has no source", "1 source on other runners.", [
        source("a", { state: "elsewhere", runner: "b", lists: [] })
      ]],
      [
        "warn",
        "All 3 lists are fresh, but something needs a look",
        "1 source on other runners, 1 source without a runner.",
        [
          ...snapshots.cluster.sources
        ]
      ],
      ["warn", "All 3 lists are fresh, but something needs a look", "1 list whose last run failed.", [
        source("a", { lists: source("a").lists.map((each, index) => index === 0 ? { ...each, failure } : each) })
      ]],
      ["bad", "1 source is stopped and 1 source cannot run", "1 source on standby.", [
        source("a", { state: "stopped", problem }),
        source("b", { state: "starting", problem }),
        source("c", { state: "standby" })
      ]]
    ] as const
  )("is %s: %s", (tone, word, more, sources) => {
    assert.deepStrictEqual(summary({ ...snapshots.fresh, sources }), { tone, word, more })
  })
})

describe("words", () => {
  it("group digits of any number of digits, and leave other text", () => {
    assert.deepStrictEqual(
      [0, 999, 1_000, -1_234_567, "123456789012345678901234567890", "1e9", ""].map(grouped),
      ["0", "999", "1,000", "-1,234,567", "123,456,789,012,345,678,901,234,567,890", "1e9", ""]
    )
  })

  it("have coarse durations", () => {
    assert.deepStrictEqual(
      [0, 14, 59, 60, 3_599, 3_600, 5_400, 86_400, 100_000].map(durationWords),
      ["under 5 s", "10 s", "55 s", "1 min", "59 min", "1 h", "1 h 30 min", "1 d", "1 d 3 h"]
    )
  })

  it("say that a source cannot use its rate limit store", () => {
    const limited = source("a", { isRateShared: false })
    assert.deepStrictEqual(sourceFindings(limited, at).map(({ tone }) => tone), ["warn"])
    assert.include(sourceFindings(limited, at)[0]?.sentence.markup, "The rate limit store cannot be used.")
    assert.include(summary({ ...snapshots.fresh, sources: [limited] }).word, "something needs a look")
    assert.deepStrictEqual(sourceFindings(source("a", { isRateShared: true }), at), [])
  })

  it("say that a source is stopped", () => {
    const [finding] = sourceFindings(
      source("a", {
        state: "stopped",
        problem: { reason: "OtherSource", message: "It has another source", since: at }
      }),
      at
    )
    assert.include(
      finding?.sentence.markup,
      "The source is stopped until a person acts: <bdi>It has another source.</bdi>"
    )
  })
})

describe("a hand-off", () => {
  const cases: ReadonlyArray<readonly [string, Partial<HandoffState>, string, ReadonlyArray<string>]> = [
    ["sends", {}, "good Sending", []],
    ["is sent for the first time", { attempts: 1 }, "good Sending", []],
    ["is sent again", { attempts: 3, answer: "401", nextAttemptAt: at }, "warn Waiting", [
      "warn: The hand-off to ledger waits: the receiver has not accepted a batch after 3 attempts. The last answer was 401. It is sent again at 14:05:09 UTC."
    ]],
    ["is stopped after a restore", { state: "stopped", reason: "restored", answer: null }, "bad Stopped", [
      "bad: The hand-off to ledger is stopped: the destination was restored, so the consumer has to say where it stands. To go on: payments changes ack ledger SEQ --generation GENERATION --source north, then payments handoff resume ledger --source north"
    ]],
    ["is stopped", { state: "stopped", reason: "gone", answer: "410" }, "bad Stopped", [
      "bad: The hand-off to ledger is stopped: the receiver wants no more changes (410). The last answer was 410. To go on: payments handoff resume ledger --source north"
    ]],
    [
      "waits for a decision",
      { state: "waiting", reason: "refused", seq: 1042, answer: "422" },
      "bad Needs a decision",
      [
        "bad: The hand-off to ledger waits for a decision about change 1042: the receiver refuses a change. The last answer was 422. To go on: payments handoff resume ledger --source north, or payments handoff skip ledger 1042 --reason TEXT --source north"
      ]
    ],
    ["has set changes aside, one of which is refused", { setAside: 3, undecided: 1 }, "bad Needs a decision", [
      "bad: The hand-off to ledger has set 3 changes aside. 1 of them waits for a decision: payments handoff list --source north"
    ]],
    [
      "sends changes again that are set aside",
      { setAside: 3, undecided: 0, resentAt: at, answer: "503" },
      "warn Waiting",
      [
        "warn: The hand-off to ledger has set 3 changes aside, and sends them again at 14:05:09 UTC. The last answer was 503. To do so at once: payments handoff resume ledger --source north"
      ]
    ],
    ["is not in the settings", { state: "removed", origin: null }, "warn Not in the settings", [
      "warn: The settings no longer name the consumer ledger, and changes are kept for it. To remove it: payments changes consumers --remove ledger --source north"
    ]],
    [
      "has no keys",
      {
        problem: {
          reason: "PaymentsConfigError",
          message: "payments.toml:8: secret_file names an empty file",
          since: at
        }
      },
      "warn Waiting",
      [
        "warn: The hand-off to ledger waits: payments.toml:8: secret_file names an empty file. Since 14:05:09 UTC, under 5 s ago."
      ]
    ]
  ]
  it.each(cases)("%s", (_name, change, expected, sentences) => {
    const given = { ...handoff, ...change }
    const { tone, word } = handoffVerdict(given)
    assert.strictEqual(`${tone} ${word}`, expected)
    const shown = source("north", { handoffs: [given] })
    assert.deepStrictEqual(
      sourceFindings(shown, at).map((one) => `${one.tone}: ${one.sentence.markup.replaceAll(/<[^>]+>/g, "")}`),
      sentences
    )
    const details = sourceDetails(shown, false, at).markup
    assert.include(details, word)
    assert.notInclude(details, "undefined")
  })

  it("that needs a person comes before those that may go on by themselves", () => {
    const [acme] = snapshots.handoffs.sources
    const tones = sourceFindings(acme ?? assert.fail("no source"), at).map(({ tone }) => tone)
    assert.deepStrictEqual(tones, ["bad", "bad", "bad", "bad", "warn", "warn", "warn"])
  })

  it("that needs a person is in the summary", () => {
    const shown = source("north", { handoffs: [{ ...handoff, state: "stopped", reason: "gaveUp" }] })
    const { more: _, ...found } = summary({ version: "", startedAt: at, at, cluster: null, sources: [shown] })
    assert.deepStrictEqual(found, { tone: "bad", word: "1 hand-off needs a person" })
  })
})

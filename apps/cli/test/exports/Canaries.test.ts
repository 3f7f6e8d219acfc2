/**
 * Personal data leaves no byte behind: a short form of `npm run test:personal`, which has all kinds of destinations and 50 kills
 * of each command.
 */
import { assert, describe, it } from "@effect/vitest"
import { makeCanaries, makeSearch, startCanaryService } from "@payments/testkit/personal/Canaries"
import { CanaryProof, folderKind } from "@payments/testkit/personal/CanaryProof"
import { binary } from "@payments/testkit/programs/RunProgram"
import { diceOf, seed } from "@payments/testkit/Seed"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { gzipSync, zstdCompressSync } from "node:zlib"

/** Runs a proof with a service of its own. */
const proof = async (name: string, prove: (proof: CanaryProof, folder: string) => Promise<void>): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), "payments-"))
  const canaries = makeCanaries(diceOf(seed, name))
  const service = await startCanaryService(canaries, 150)
  try {
    await prove(
      new CanaryProof({ program: binary, canaries, service, temporary: join(folder, "temporary") }, name),
      folder
    )
  } finally {
    service.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

describe.concurrent(`canaries in every field (seed ${seed})`, () => {
  it(
    "are in no byte of an SQLite file and its logs after an erasure that was killed, and three more scans",
    () =>
      proof("erase", async (proven, folder) => {
        const kind = folderKind(folder, "sqlite", (place) => `sqlite:${place}/payments.db`)
        const filled = await kind.open("filled")
        assert.isAtLeast(await proven.fill(filled), 200)
        await proven.proveErase(filled, { kills: 1, dice: diceOf(seed, "erase") })
      }),
    600_000
  )

  it(
    "are in no byte of a folder and its old files after a rewrite that was killed, and three more scans",
    () =>
      proof("rewrite", async (proven, folder) => {
        const kind = folderKind(folder, "csv", (place) => `file:${place}?format=csv&compress=gzip`)
        const filled = await kind.open("filled")
        assert.isAtLeast(await proven.fill(filled), 200)
        await proven.proveRewrite(filled, { kills: 1, dice: diceOf(seed, "rewrite") })
      }),
    600_000
  )

  it("are in no byte after exports with a rule", () =>
    proof("rule", async (proven, folder) => {
      const kind = folderKind(folder, "ndjson", (place) => `file:${place}?format=ndjson`)
      assert.isAbove(await proven.proveRule(kind, "pseudonymize", "rule"), 0)
    }), 600_000)
})

describe("the search for canaries", () => {
  it("finds them in every form, also at the end of a page", () => {
    const canaries = makeCanaries(diceOf(seed, "search"))
    const canary = canaries.of("erased", "person", "name")
    const search = makeSearch(canaries, [{ person: "erased", place: "person" }])
    const bytes = Buffer.from(`xx${canary}`)
    const forms = [
      bytes,
      Buffer.from(bytes.toString("utf8"), "utf16le"),
      Buffer.from(bytes.toString("hex")),
      ...[0, 1, 2].map((shift) => Buffer.from(Buffer.concat([Buffer.alloc(shift, "x"), bytes]).toString("base64"))),
      Buffer.from(canary.replaceAll(/./g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`)),
      // Another page begins in the middle of the canary.
      bytes.subarray(0, 12),
      bytes.subarray(8)
    ]
    for (const [index, form] of forms.entries()) assert.lengthOf(search("file", form), 1, `form ${index}`)
    const text = Buffer.concat([Buffer.alloc(5000, "abcdefg"), bytes])
    for (const packed of [Buffer.concat([Buffer.from("PAR1"), gzipSync(text)]), zstdCompressSync(text)]) {
      assert.isTrue(search("file", packed).some((found) => found.startsWith("file (decompressed)")))
    }
    const others = [canaries.of("other", "person", "name"), canaries.of("erased", "payment", "name")]
    assert.deepStrictEqual(search("file", Buffer.from(others.join())), [])
  })
})

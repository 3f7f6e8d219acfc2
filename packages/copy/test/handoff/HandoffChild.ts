/** A sender in a child process, for tests that kill it. It prints a line when it begins, and sends until it is killed. */
import { urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Effect } from "effect"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"
import { postTo, sending } from "./Receiver.ts"

const [url = "", place = "", port = ""] = process.argv.slice(2)

await Effect.runPromise(
  Effect.scoped(Effect.gen(function*() {
    const opened = port === ""
      ? openMaintenance(place, "here")
      : PostgresSink.maintenance(urlOf({ port: Number(port) }, place))
    console.log("begins")
    yield* sending(yield* opened, yield* postTo(url), { limits: { changes: 2, bytes: 20_000 }, isFollowing: true })
  }))
)

/** `payments mcp`: serves the lists and their copy to agents, as a Model Context Protocol server. */
import { PaymentsApi } from "@payments/core"
import { fromDestinationIfAny, fromFlag, type ProgramError } from "@payments/export/program"
import { Context, Effect, Layer, Semaphore } from "effect"
import { Command, Flag } from "effect/cli"

/** `payments mcp`. */
export const mcpCommand = <R>(api: Layer.Layer<PaymentsApi, ProgramError, R>, version: string) =>
  Command.make(
    "mcp",
    {
      from: fromFlag,
      personal: Flag.Literals("personal", ["omit", "include"]).pipe(
        Flag.withDescription(
          "whether answers have fields that identify a person, and undocumented fields; default omit"
        ),
        Flag.withDefault("omit")
      )
    },
    Effect.fnUntraced(function*({ from, personal }) {
      const destination = yield* fromDestinationIfAny(from)
      // Loaded only here, because no other command needs the protocol.
      const { serve, Visibility } = yield* Effect.promise(() => import("../mcp/Server.ts"))
      yield* Effect.scoped(Effect.gen(function*() {
        const builds = yield* Semaphore.make(1)
        const scope = yield* Effect.scope
        const context = yield* Effect.context<R>()
        let built: PaymentsApi["Service"] | undefined
        const operations = builds.withPermit(Effect.gen(function*() {
          built ??= Context.get(yield* Layer.buildWithScope(api, scope), PaymentsApi)
          return built
        })).pipe(Effect.provideContext(context))
        yield* serve(version, { api: operations, destination, visibility: Visibility.make(personal) })
      }))
    })
  ).pipe(
    Command.withDescription(
      "Serve the lists and a copy of them to agents: a Model Context Protocol server on stdin and stdout"
    ),
    Command.withExamples([
      {
        command: "payments mcp --from sqlite:./payments.db",
        description: "an agent starts this; personal fields are left out"
      },
      {
        command: "payments mcp --from sqlite:./payments.db --personal include",
        description: "the same with every field of every record"
      }
    ])
  )

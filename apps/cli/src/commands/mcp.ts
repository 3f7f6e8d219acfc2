/** `payments mcp`: serves the lists and their copy to agents, as a Model Context Protocol server. */
import { PaymentsApi } from "@payments/core"
import {
  chosenPersonal,
  fromDestinationIfAny,
  fromFlag,
  openSettingsOf,
  type ProgramError,
  sourceOfDestination
} from "@payments/program"
import { Context, Effect, Layer, Semaphore } from "effect"
import { Command, Flag } from "effect/cli"

export const mcpCommand = <R>(api: Layer.Layer<PaymentsApi, ProgramError, R>, version: string) =>
  Command.make(
    "mcp",
    {
      from: fromFlag,
      personal: Flag.Literals("personal", ["omit", "pseudonymize", "include"]).pipe(
        Flag.withDescription(
          "omit leaves fields that identify a person out; pseudonymize replaces each of their values by a pseudonym; include shows them and undocumented fields; default omit"
        ),
        Flag.withDefault("omit")
      )
    },
    Effect.fnUntraced(function*({ from, personal }) {
      const destination = yield* fromDestinationIfAny(from)
      const { finalStates } = yield* openSettingsOf(yield* sourceOfDestination(from))
      // Pseudonyms of the personal key are those of the copy and of every server with it.
      const key = personal === "pseudonymize" ? (yield* chosenPersonal("forDestination")).key : undefined
      // Loaded only here, because no other command needs the protocol.
      const { serve, Visibility } = yield* Effect.promise(() => import("../agents/Server.ts"))
      const builds = yield* Semaphore.make(1)
      const scope = yield* Effect.scope
      const context = yield* Effect.context<R>()
      let built: PaymentsApi["Service"] | undefined
      const operations = builds.withPermit(Effect.gen(function*() {
        built ??= Context.get(yield* Layer.buildWithScope(api, scope), PaymentsApi)
        return built
      })).pipe(Effect.provideContext(context))
      yield* serve(version, { api: operations, destination, visibility: Visibility.make(personal, key), finalStates })
    }, Effect.scoped)
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
        command: "payments mcp --from sqlite:./payments.db --personal pseudonymize",
        description: "the same with pseudonyms, so that an agent can name the largest customers without knowing them"
      },
      {
        command: "payments mcp --from sqlite:./payments.db --personal include",
        description: "with every field of every record"
      }
    ])
  )

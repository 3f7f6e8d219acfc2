/** The official client of the Model Context Protocol, connected to the built program over pipes. */
import { assert } from "@effect/vitest"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { getDefaultEnvironment, StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { Effect, Schema } from "effect"
import { binary, node } from "./RunProgram.ts"

/** The structured content of an answer, as agents read it. */
const Answer = Schema.Struct({
  complete: Schema.Boolean,
  total: Schema.NullOr(Schema.Int),
  returned: Schema.Int,
  source: Schema.Literals(["api", "copy"]),
  ageSeconds: Schema.NullOr(Schema.Finite),
  next: Schema.NullOr(Schema.Struct({ tool: Schema.String, arguments: Schema.Record(Schema.String, Schema.Unknown) })),
  notes: Schema.Array(Schema.String),
  columns: Schema.optionalKey(Schema.Array(Schema.String)),
  data: Schema.Array(Schema.Unknown),
  schemaVersion: Schema.Literal(1)
})
/** {@inheritDoc Answer} */
export type Answer = typeof Answer.Type

const Content = Schema.Array(Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }))

export type Arguments = Readonly<Record<string, unknown>>

/**
 * Starts `payments mcp` with these arguments, after a command of the shell, and connects to it. Closing the scope ends
 * both.
 */
export const connect = (
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = {},
  before = "true",
  { program = [node, binary], version }: {
    readonly program?: readonly [node: string, launcher: string]
    /** The version of the protocol that the client requests; by default its newest. */
    readonly version?: string
  } = {}
) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const transport = new StdioClientTransport({
        command: "sh",
        args: ["-c", `${before}; exec "$0" "$@"`, ...program, "mcp", ...args],
        env: { ...getDefaultEnvironment(), XDG_CONFIG_HOME: "/dev/null", ...env },
        stderr: "pipe"
      })
      let negotiated: string | undefined
      const send = transport.send.bind(transport)
      Object.assign(transport, {
        setProtocolVersion: (chosen: string) => void (negotiated = chosen),
        send: (message: Parameters<typeof send>[0]) =>
          send(
            version !== undefined && "method" in message && message.method === "initialize"
              ? { ...message, params: { ...message.params, protocolVersion: version } }
              : message
          )
      })
      let stderr = ""
      transport.stderr?.on("data", (chunk: Buffer) => stderr += chunk.toString("utf8"))
      const client = new Client({ name: "test", version: "1" })
      await client.connect(transport)
      return { client, transport, negotiated, stderr: () => stderr }
    }),
    ({ client }) => Effect.promise(() => client.close())
  ).pipe(Effect.map((connected) => ({ ...connected, ...callsOf(connected.client) })))

export type Connection = Effect.Success<ReturnType<typeof connect>>

const callsOf = (client: Client) => {
  const result = async (tool: string, given: Arguments) => {
    const { content, isError, structuredContent } = await client.callTool({ name: tool, arguments: given })
    return { isError: isError === true, structuredContent, texts: Schema.decodeUnknownSync(Content)(content) }
  }
  return {
    /** Returns everything that the tool answers as one text, without what differs from call to call. */
    textOf: async (tool: string, given: Arguments) => {
      const { isError, structuredContent, texts } = await result(tool, given)
      return {
        isError,
        text: (texts.map(({ text }) => text).join("\n") + JSON.stringify(structuredContent ?? null))
          .replaceAll(/data-[0-9a-f]{24}/g, "MARK").replaceAll(/(?<="ageSeconds":)\d+/g, "AGE")
      }
    },
    /** Checks what every answer promises, and returns the answer. */
    call: async (tool: string, given: Arguments): Promise<Answer> => {
      const { isError, structuredContent, texts } = await result(tool, given)
      assert.isFalse(isError, texts[0]?.text)
      const answer = Schema.decodeUnknownSync(Answer)(structuredContent)
      const { data, ...header } = answer
      assert.deepStrictEqual(JSON.parse(texts[0]?.text ?? ""), header)
      const [, mark, json = ""] = /<(data-[0-9a-f]{24})>\n([^]*)\n<\/\1>$/.exec(texts[1]?.text ?? "") ?? []
      assert.isDefined(mark)
      assert.deepStrictEqual(JSON.parse(json), data)
      assert.strictEqual(data.length, answer.returned)
      if (answer.complete) {
        assert.isNull(answer.next)
        assert.strictEqual(answer.total, answer.returned)
      } else assert.isNotEmpty(answer.notes)
      return answer
    }
  }
}

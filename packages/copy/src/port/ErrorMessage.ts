/** Errors of a destination as plain values, which a thread or a process can send: a copied object loses its class. */
import { reasons, SinkError, type SinkReason } from "./Sink.ts"

const classes: {
  readonly [Tag in SinkReason["_tag"]]: new(fields: never) => Extract<SinkReason, { readonly _tag: Tag }>
} = reasons

/** Whether a thrown value is the reason of a failure. */
export const isReason = (error: unknown): error is SinkReason =>
  Object.values(classes).some((Reason) => error instanceof Reason)

/** The reason also has the fields of its class. */
export interface ErrorMessage {
  readonly location: string
  readonly reason: { readonly _tag: SinkReason["_tag"] }
}

export const fromError = ({ location, reason }: SinkError): ErrorMessage => ({ location, reason: { ...reason } })

export const toError = ({ location, reason: { _tag, ...fields } }: ErrorMessage): SinkError => {
  const Reason = classes[_tag] as new(fields: object) => SinkReason // the fields are those of a reason with this tag
  return new SinkError({ location, reason: new Reason(fields) })
}

/** Errors of a destination as plain values, which a thread or a process can send: a copied object loses its class. */
import {
  AccessDenied,
  Damaged,
  DestinationFailed,
  DestinationMoved,
  DiskFull,
  LeaseLost,
  Locked,
  LogInUse,
  NotADestination,
  OtherMerchant,
  OtherRule,
  OtherSource,
  PersonalDataChanged,
  RowsRemoved,
  SinkError,
  type SinkReason,
  Unavailable,
  WrongSetting
} from "./Sink.ts"

const reasons = {
  Damaged,
  Denied: AccessDenied,
  Failed: DestinationFailed,
  Full: DiskFull,
  LeaseLost,
  Locked,
  LogInUse,
  Moved: DestinationMoved,
  NotADestination,
  OtherMerchant,
  OtherRule,
  OtherSource,
  PersonalDataChanged,
  RowsRemoved,
  Unavailable,
  WrongSetting
} satisfies { readonly [Tag in SinkReason["_tag"]]: new(fields: never) => Extract<SinkReason, { readonly _tag: Tag }> }

/** Whether a thrown value is the reason of a failure. */
export const isReason = (error: unknown): error is SinkReason =>
  Object.values(reasons).some((Reason) => error instanceof Reason)

/** The reason also has the fields of its class. */
export interface ErrorMessage {
  readonly location: string
  readonly reason: { readonly _tag: SinkReason["_tag"] }
}

export const fromError = ({ location, reason }: SinkError): ErrorMessage => ({ location, reason: { ...reason } })

export const toError = ({ location, reason: { _tag, ...fields } }: ErrorMessage): SinkError => {
  const Reason = reasons[_tag] as new(fields: object) => SinkReason // the fields are those of a reason with this tag
  return new SinkError({ location, reason: new Reason(fields) })
}

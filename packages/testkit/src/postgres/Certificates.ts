/** Makes certificate authorities for tests. */
import forge from "node-forge"
import { generateKeyPairSync, randomBytes } from "node:crypto"

/** Both are PEM. */
export interface KeyAndCertificate {
  readonly key: string
  readonly certificate: string
}

export interface Authority {
  /** The authority's own certificate, as PEM. */
  readonly certificate: string
  /** Issues a certificate for a server at an address. */
  readonly certify: (address: string) => KeyAndCertificate
}

/** The authority is valid for a day. */
export const makeAuthority = (name: string): Authority => {
  const own = keys()
  const issuer = [{ name: "commonName", value: name }]
  const root = signed(own.publicKey, own.privateKey, { subject: issuer, issuer }, [
    { name: "basicConstraints", cA: true, critical: true },
    { name: "keyUsage", keyCertSign: true, critical: true }
  ])
  return {
    certificate: root,
    certify: (address) => certified(address, { issuer, privateKey: own.privateKey })
  }
}

/** Makes a certificate of a server at an address that no authority has issued. */
export const makeSelfSigned = (address: string): KeyAndCertificate => certified(address)

/** Without an authority, the server signs its own certificate. */
const certified = (
  address: string,
  by?: { readonly issuer: Array<forge.pki.CertificateField>; readonly privateKey: forge.pki.rsa.PrivateKey }
): KeyAndCertificate => {
  const server = keys()
  const subject = [{ name: "commonName", value: "server" }]
  const { issuer, privateKey } = by ?? { issuer: subject, privateKey: server.privateKey }
  return {
    key: server.pem,
    certificate: signed(server.publicKey, privateKey, { subject, issuer }, [
      // https://www.rfc-editor.org/rfc/rfc5280#section-4.2.1.6: 7 is an address.
      { name: "subjectAltName", altNames: [{ type: 7, ip: address }] }
    ])
  }
}

/** Node is faster than node-forge. */
const keys = () => {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" }
  })
  return {
    pem: privateKey,
    publicKey: forge.pki.publicKeyFromPem(publicKey),
    privateKey: forge.pki.privateKeyFromPem(privateKey)
  }
}

const signed = (
  publicKey: forge.pki.rsa.PublicKey,
  by: forge.pki.rsa.PrivateKey,
  names: Record<"subject" | "issuer", Array<forge.pki.CertificateField>>,
  extensions: Array<object>
): string => {
  const certificate = forge.pki.createCertificate()
  certificate.publicKey = publicKey
  // A first byte from 01 to 7f keeps the number positive, and needs no padding in DER.
  certificate.serialNumber = `01${randomBytes(8).toString("hex")}`
  const day = 24 * 60 * 60 * 1000
  certificate.validity.notBefore = new Date(Date.now() - day)
  certificate.validity.notAfter = new Date(Date.now() + day)
  certificate.setSubject(names.subject)
  certificate.setIssuer(names.issuer)
  certificate.setExtensions(extensions)
  certificate.sign(by, forge.md.sha256.create())
  return forge.pki.certificateToPem(certificate)
}

/** Certificate authorities of a test's own. */
import forge from "node-forge"
import { generateKeyPairSync, randomBytes } from "node:crypto"

/** A key and its certificate, as PEM. */
export interface Certified {
  readonly key: string
  readonly certificate: string
}

/** Who certifies servers. */
export interface Authority {
  /** Its own certificate, as PEM. */
  readonly certificate: string
  /** Certifies a server at an address. */
  readonly certify: (address: string) => Certified
}

/** Makes one that holds for a day. */
export const authorityOf = (name: string): Authority => {
  const own = keys()
  const issuer = [{ name: "commonName", value: name }]
  const root = signed(own.publicKey, own.privateKey, { subject: issuer, issuer }, [
    { name: "basicConstraints", cA: true, critical: true },
    { name: "keyUsage", keyCertSign: true, critical: true }
  ])
  return {
    certificate: root,
    certify: (address) => {
      const server = keys()
      return {
        key: server.pem,
        certificate: signed(
          server.publicKey,
          own.privateKey,
          { subject: [{ name: "commonName", value: "server" }], issuer },
          // https://www.rfc-editor.org/rfc/rfc5280#section-4.2.1.6: 7 is an address.
          [{ name: "subjectAltName", altNames: [{ type: 7, ip: address }] }]
        )
      }
    }
  }
}

/** Node's own, which are made in a moment. */
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
  // A leading zero keeps the number positive.
  certificate.serialNumber = `00${randomBytes(8).toString("hex")}`
  const day = 24 * 60 * 60 * 1000
  certificate.validity.notBefore = new Date(Date.now() - day)
  certificate.validity.notAfter = new Date(Date.now() + day)
  certificate.setSubject(names.subject)
  certificate.setIssuer(names.issuer)
  certificate.setExtensions(extensions)
  certificate.sign(by, forge.md.sha256.create())
  return forge.pki.certificateToPem(certificate)
}

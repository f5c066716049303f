//! The certificates of one cluster, and kubeconfigs made from them.

use std::{fs, net::IpAddr, path::Path};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use serde_json::json;

/// The authority all certificates of one cluster come from.
#[derive(Debug)]
pub struct Authority {
    /// Its certificate, as PEM.
    pub certificate: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, as PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl Authority {
    /// A new authority with a key of its own.
    pub fn create(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?.pem();
        let pem = key.serialize_pem();
        Ok(Self { certificate, key: pem, issuer: Issuer::new(params, key) })
    }

    /// A client certificate; Kubernetes reads the user from `name` and the group from `group`.
    pub fn client(&self, name: &str, group: &str) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(name, Some(group));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// A server certificate for `names` and `addresses`.
    pub fn server(&self, name: &str, names: &[&str], addresses: &[IpAddr]) -> Result<Identity> {
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.subject_alt_names.extend(addresses.iter().map(|it| SanType::IpAddress(*it)));
        params.distinguished_name = subject(name, None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// Writes `ca.crt` and `ca.key`.
    pub fn write(&self, folder: &Path) -> Result<()> {
        write_private(&folder.join("ca.crt"), &self.certificate)?;
        write_private(&folder.join("ca.key"), &self.key)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

impl Identity {
    /// Writes `NAME.crt` and `NAME.key`.
    pub fn write(&self, folder: &Path, name: &str) -> Result<()> {
        write_private(&folder.join(format!("{name}.crt")), &self.certificate)?;
        write_private(&folder.join(format!("{name}.key")), &self.key)
    }
}

/// Writes the key pair that signs service account tokens: `sa.key` and `sa.pub`.
pub fn write_token_keys(folder: &Path) -> Result<()> {
    let key = KeyPair::generate()?;
    write_private(&folder.join("sa.key"), &key.serialize_pem())?;
    write_private(&folder.join("sa.pub"), &key.public_key_pem())
}

/// A kubeconfig, as JSON (every reader of YAML takes it). Paths are absolute, so that it can be copied.
pub fn kubeconfig(cluster: &str, server: &str, authority: &Path, pki: &Path, user: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority": authority}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "users": [{"name": user, "user": {
            "client-certificate": pki.join(format!("{user}.crt")),
            "client-key": pki.join(format!("{user}.key")),
        }}],
    });
    format!("{config:#}\n")
}

/// Writes a file only its owner can read.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(())
}

fn subject(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject
}

"""Keys, signatures and encryption by themselves; `behaviour/test_bound_codecs.py` uses them in apps."""

from __future__ import annotations

import logging
import pickle
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import App, ConfigurationError, EncryptedCodec, InvalidPayload, SignedCodec
from headrace.core.crypto.keys import new_key
from headrace.core.encoding.codec import BindingCodec, form_of

#: Written down, because they are part of the names of tests.
ONE = "hrk_25a5abc1_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
OTHER = "hrk_997465dc_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8"
CODECS: list[type[BindingCodec]] = [SignedCodec, EncryptedCodec]

Make = Any  # a class of codecs, called with keys


def id_of(key: str) -> str:
    return key.split("_")[1]


def secret_of(key: str) -> str:
    return key.split("_", 2)[2]


@pytest.fixture(params=CODECS)
def make(request: pytest.FixtureRequest) -> Make:
    return request.param


# --- keys -------------------------------------------------------------------------------------------------


def test_every_new_key_is_another_one() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == len({id_of(key) for key in keys}) == len({secret_of(key) for key in keys}) == 100


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("", "needs at least one key"),
        ([], "needs at least one key"),
        (" , ", "needs at least one key"),
        (None, "not a NoneType"),
        (7, "not a int"),
        (ONE.encode(), "not a bytes"),
        ([ONE.encode()], "key 1 of 1 is a bytes, not a text"),
        ([ONE, ""], "key 2 of 2 is no key"),
        ("secret", "key 1 of 1 is no key"),
        (ONE[:-1], "this text has 55 characters"),
        (ONE + "A", "this text has 57 characters"),
        (ONE.replace("hrk", "hsk"), "key 1 of 1 is no key"),
        ([OTHER, ONE[:20] + ("A" if ONE[20] != "A" else "B") + ONE[21:]], "key 2 of 2 is damaged: its id"),
        ([ONE, OTHER, ONE], "the same key twice"),
    ],
)
def test_a_wrong_key_is_refused_and_not_shown(make: Make, keys: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        make(keys)
    for key in (ONE, OTHER):
        assert secret_of(key)[:10] not in str(caught.value)
        assert secret_of(key)[-10:] not in str(caught.value)


@given(text=st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    with pytest.raises(ConfigurationError):
        SignedCodec(text)


def test_keys_are_taken_from_one_text_too(make: Make) -> None:
    data = make(ONE).encode_for(b"x", b"")
    for keys in (f"{OTHER},{ONE}", f" {OTHER}\n{ONE} ", (OTHER, ONE), [OTHER, f" {ONE} "]):
        assert make(keys).decode_for(data, b"") == b"x"


def test_no_text_of_a_codec_has_a_secret(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    codec = make([ONE, OTHER])
    app = App("memory://", codec=codec)
    logging.getLogger("headrace").warning("%r %s %r", codec, codec, app)
    shown = f"{codec!r} {codec} {vars(codec)} {app!r} {caplog.text}"
    assert id_of(ONE) in repr(codec)
    assert id_of(OTHER) in repr(codec)
    for key in (ONE, OTHER):
        assert secret_of(key) not in shown


def test_a_codec_and_its_class_are_not_confused(make: Make) -> None:
    with pytest.raises(ConfigurationError, match=f"make one with {make.__name__}"):
        App("memory://", codec=make)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(ConfigurationError, match=r"headrace\[crypto\]"):
        EncryptedCodec(ONE)
    SignedCodec(ONE)  # needs nothing that Python does not have


# --- signing and encrypting -------------------------------------------------------------------------------


@given(payload=st.binary(), associated=st.binary())
def test_what_was_encoded_is_decoded(payload: bytes, associated: bytes) -> None:
    for make, form in ((SignedCodec, "signed"), (EncryptedCodec, "encrypted")):
        data = make(ONE).encode_for(payload, associated)
        assert make([OTHER, ONE]).decode_for(data, associated) == payload
        assert form_of(data) == form


@given(data=st.data(), payload=st.binary(max_size=50), associated=st.binary(max_size=20))
def test_no_byte_can_be_changed(data: st.DataObject, payload: bytes, associated: bytes) -> None:
    for make in CODECS:
        codec = codec_of(make)
        stored = codec.encode_for(payload, associated)
        place = data.draw(st.integers(0, len(stored) - 1))
        flipped = stored[place] ^ data.draw(st.integers(1, 255))
        refused(codec, stored[:place] + bytes([flipped]) + stored[place + 1 :], associated)


@given(data=st.data(), payload=st.binary(max_size=50))
def test_nothing_can_be_cut_off_or_added(data: st.DataObject, payload: bytes) -> None:
    for make in CODECS:
        codec = codec_of(make)
        stored = codec.encode_for(payload, b"here")
        refused(codec, stored[: data.draw(st.integers(0, len(stored) - 1))], b"here")
        refused(codec, stored[data.draw(st.integers(1, len(stored))) :], b"here")
        refused(codec, stored + data.draw(st.binary(min_size=1, max_size=20)), b"here")


@given(payload=st.binary(max_size=50), here=st.binary(max_size=20), there=st.binary(max_size=20))
def test_a_payload_cannot_be_moved(payload: bytes, here: bytes, there: bytes) -> None:
    for make in CODECS:
        codec = codec_of(make)
        if here != there:
            refused(codec, codec.encode_for(payload, here), there)
        # Not even when the associated data of one is a part of the payload of the other.
        refused(codec, codec.encode_for(here + payload, b""), here or b"x")


@given(payload=st.binary(max_size=50), moved=st.binary(min_size=1, max_size=20))
def test_no_byte_moves_from_a_signed_payload_to_what_it_is_bound_to(payload: bytes, moved: bytes) -> None:
    codec = SignedCodec(ONE)
    stored = codec.encode_for(moved + payload, b"here")
    signed = stored.removesuffix(moved + payload)
    refused(codec, signed + payload, b"here" + moved)


@given(data=st.binary(max_size=200))
def test_other_bytes_are_refused(data: bytes) -> None:
    for make in CODECS:
        refused(codec_of(make), data, b"")


def test_a_key_that_is_not_known_is_named(make: Make) -> None:
    data = make(OTHER).encode_for(b"x", b"")
    with pytest.raises(
        InvalidPayload, match=f"with key {id_of(OTHER)}, which this app does not have"
    ) as caught:
        make(ONE).decode_for(data, b"")
    assert f"it has {id_of(ONE)}" in str(caught.value)


def test_one_form_is_not_taken_for_the_other() -> None:
    with pytest.raises(InvalidPayload, match="is encrypted, not signed"):
        SignedCodec(ONE).decode_for(EncryptedCodec(ONE).encode_for(b"x", b""), b"")
    with pytest.raises(InvalidPayload, match="is signed, not encrypted"):
        EncryptedCodec(ONE).decode_for(SignedCodec(ONE).encode_for(b"x", b""), b"")


def test_the_first_key_is_used(make: Make) -> None:
    data = make([OTHER, ONE]).encode_for(b"x", b"")
    assert make(OTHER).decode_for(data, b"") == b"x"
    refused(make(ONE), data, b"")


def test_encrypted_bytes_tell_nothing() -> None:
    codec = EncryptedCodec(ONE)
    one, two = (codec.encode_for(b"secret" * 20, b"associated") for _ in range(2))
    assert one != two
    assert b"secret" not in one + two
    assert b"associated" not in one + two


def test_fingerprints_are_equal_for_equal_payloads_and_need_the_key() -> None:
    signed, encrypted = SignedCodec(ONE), EncryptedCodec(ONE)
    assert signed.fingerprint(b"x") == SignedCodec(OTHER).fingerprint(b"x") != signed.fingerprint(b"y")
    assert encrypted.fingerprint(b"x") == EncryptedCodec([ONE, OTHER]).fingerprint(b"x")
    others = {encrypted.fingerprint(b"y"), EncryptedCodec(OTHER).fingerprint(b"x"), signed.fingerprint(b"x")}
    assert encrypted.fingerprint(b"x") not in others


def test_a_codec_is_not_written_into_a_pickle(make: Make) -> None:
    with pytest.raises(TypeError, match="holds keys"):
        pickle.dumps(make(ONE))


_made: dict[type[BindingCodec], BindingCodec] = {}


def codec_of(make: Make) -> BindingCodec:
    return _made.setdefault(make, make(ONE))


def refused(codec: BindingCodec, data: bytes, associated: bytes) -> None:
    with pytest.raises(InvalidPayload):
        codec.decode_for(data, associated)

"""Symbol versions of an ELF shared object (System V gABI, and its GNU extension `.gnu.version_r`).

Only what is needed here: 64-bit little-endian files, and their section headers.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SHT_DYNSYM = 11
SHT_GNU_VERDEF = 0x6FFFFFFD  # .gnu.version_d: versions this object defines
SHT_GNU_VERNEED = 0x6FFFFFFE  # .gnu.version_r: versions it requires of others
SHT_GNU_VERSYM = 0x6FFFFFFF  # .gnu.version: a version index for each dynamic symbol
VER_FLG_WEAK = 0x2  # the dynamic linker tolerates that the version is missing
VERSION_INDEX_MASK = 0x7FFF  # the top bit of a version index marks a hidden symbol

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
_SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym
_VERNEED = struct.Struct("<HHIII")  # vn_version, vn_cnt, vn_file, vn_aux, vn_next
_VERNAUX = struct.Struct("<IHHII")  # vna_hash, vna_flags, vna_other, vna_name, vna_next
_VERDEF = struct.Struct("<HHHHIII")  # vd_version, vd_flags, vd_ndx, vd_cnt, vd_hash, vd_aux, vd_next
_VERDAUX = struct.Struct("<II")  # vda_name, vda_next
_VNA_FLAGS_OFFSET = 4  # of vna_flags inside Elf64_Vernaux


@dataclass(frozen=True)
class Requirement:
    """One version that the object requires of a library it links."""

    soname: str  # of the library, e.g. libstdc++.so.6
    version: str  # e.g. GLIBCXX_3.4.32
    weak: bool
    index: int  # the version index that symbols bound to it carry
    flags_offset: int  # where its vna_flags is in the file


@dataclass(frozen=True)
class _Section:
    type: int
    offset: int
    size: int
    link: int  # number of the section with its strings
    info: int  # for version sections: number of entries


class ElfObject:
    """A shared object's bytes, with its version tables readable.

    Raises:
        ValueError: not a 64-bit little-endian ELF file.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < _HEADER.size or data[:4] != b"\x7fELF" or data[4:6] != b"\x02\x01":
            raise ValueError("not a 64-bit little-endian ELF file")
        self.data = data
        header = _HEADER.unpack_from(data)
        e_shoff, e_shentsize, e_shnum = header[6], header[11], header[12]
        self._sections = [self._section(e_shoff + i * e_shentsize) for i in range(e_shnum)]

    @staticmethod
    def read(path: Path) -> "ElfObject":
        return ElfObject(path.read_bytes())

    def _section(self, offset: int) -> _Section:
        _, sh_type, _, _, sh_offset, sh_size, sh_link, sh_info, _, _ = _SECTION.unpack_from(self.data, offset)
        return _Section(sh_type, sh_offset, sh_size, sh_link, sh_info)

    def _of_type(self, sh_type: int) -> _Section | None:
        return next((s for s in self._sections if s.type == sh_type), None)

    def _string(self, section: _Section, offset: int) -> str:
        start = self._sections[section.link].offset + offset
        return self.data[start : self.data.index(b"\0", start)].decode()

    def requirements(self) -> list[Requirement]:
        """Every version in `.gnu.version_r`."""
        section = self._of_type(SHT_GNU_VERNEED)
        return [] if section is None else list(self._walk_requirements(section))

    def _walk_requirements(self, section: _Section) -> Iterator[Requirement]:
        at = section.offset
        for _ in range(section.info):
            _, vn_cnt, vn_file, vn_aux, vn_next = _VERNEED.unpack_from(self.data, at)
            soname, aux = self._string(section, vn_file), at + vn_aux
            for _ in range(vn_cnt):
                _, vna_flags, vna_other, vna_name, vna_next = _VERNAUX.unpack_from(self.data, aux)
                weak, version = bool(vna_flags & VER_FLG_WEAK), self._string(section, vna_name)
                yield Requirement(soname, version, weak, vna_other, aux + _VNA_FLAGS_OFFSET)
                aux += vna_next
            at += vn_next

    def defined_versions(self) -> set[str]:
        """Every version in `.gnu.version_d`."""
        section = self._of_type(SHT_GNU_VERDEF)
        names: set[str] = set()
        at = section.offset if section else 0
        for _ in range(section.info if section else 0):
            _, _, _, _, _, vd_aux, vd_next = _VERDEF.unpack_from(self.data, at)
            vda_name, _ = _VERDAUX.unpack_from(self.data, at + vd_aux)
            assert section is not None
            names.add(self._string(section, vda_name))
            at += vd_next
        return names

    def symbols_bound_to(self, requirement: Requirement) -> list[str]:
        """Names of the dynamic symbols that carry this version."""
        symbols, versions = self._of_type(SHT_DYNSYM), self._of_type(SHT_GNU_VERSYM)
        if symbols is None or versions is None:
            return []
        count = symbols.size // _SYMBOL.size
        indices = struct.unpack_from(f"<{count}H", self.data, versions.offset)
        return [
            self._string(symbols, _SYMBOL.unpack_from(self.data, symbols.offset + i * _SYMBOL.size)[0])
            for i in range(count)
            if indices[i] & VERSION_INDEX_MASK == requirement.index
        ]

    def with_weak(self, requirement: Requirement) -> "ElfObject":
        """The same object with this requirement marked VER_FLG_WEAK; no byte moves."""
        (flags,) = struct.unpack_from("<H", self.data, requirement.flags_offset)
        patched = bytearray(self.data)
        struct.pack_into("<H", patched, requirement.flags_offset, flags | VER_FLG_WEAK)
        return ElfObject(bytes(patched))

"""Exports of `nighthawk_async.skills`. Each name is loaded when it is first used."""

from .allowed_tools import AllowedTool
from .errors import SkillFault, SkillFileError, SkillsError
from .loading import load
from .skill import Skill, Skills

__all__ = ["AllowedTool", "Skill", "SkillFault", "SkillFileError", "Skills", "SkillsError", "load"]

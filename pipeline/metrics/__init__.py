"""Every metric's name, meaning and source; alarms on them; trackers that receive them.

Imports: records.
"""
